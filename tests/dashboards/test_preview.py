"""A selection gets into queries as Grafana writes it there; the preview says which panels it can't draw."""

import copy
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import combinations
from typing import Any

import matplotlib.dates as mdates
import pytest
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.transforms import Bbox

from tests.pictures import figures  # noqa: F401
from unskew.apps.monitoring.colours import COLOURS
from unskew.dashboards import checked_in
from unskew.dashboards.preview.data_sources import DataSources, Series, Table, labelled
from unskew.dashboards.preview.drawing import LEAST_TICKS, MOST_TICKS, TIMELESS, draw
from unskew.dashboards.preview.files import save
from unskew.dashboards.preview.panels import OF_SERIES, OF_TABLE, Panel
from unskew.dashboards.preview.selection import Selection

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


def selection(**values: list[str]) -> Selection:
    return Selection(NOON, NOON + timedelta(minutes=30), values)


def test_flux_gets_times_period_and_bucket():
    query = "from(bucket: v.defaultBucket) |> range(start: v.timeRangeStart, stop: v.timeRangeStop)"
    assert selection().in_flux(query, "mine", 24) == (
        'from(bucket: "mine") |> range(start: 2024-01-01T12:00:00.000Z, stop: 2024-01-01T12:30:00.000Z)'
    )
    assert selection().in_flux("every: v.windowPeriod", "mine", 24) == "every: 2s"


@pytest.mark.parametrize(
    ("values", "flux", "promql"),
    [
        ([], "/^.*$/", '".*"'),
        (["a-s1"], "/^a-s1$/", '"a-s1"'),
        (["a.b"], r"/^a\.b$/", r'"a\\.b"'),
        (["a", "b/c"], r"/^(a|b\/c)$/", r'"(a|b\\/c)"'),
    ],
)
def test_values_become_regular_expressions(values, flux, promql):
    assert selection(run=values).in_flux("/^${run:regex}$/", "mine", 24) == flux
    assert selection(run=values).in_promql('"$run"', 24) == promql


def test_promql_gets_its_ranges():
    query = 'label_replace(rate(x[$__rate_interval]) / increase(x[$__range]), "stream", "$1", "run", "(.+)")'
    assert selection().in_promql(query, 24) == (
        'label_replace(rate(x[8s]) / increase(x[1800s]), "stream", "$1", "run", "(.+)")'
    )


def test_a_narrow_panel_has_fewer_points_and_a_long_range_too():
    assert [selection().interval(width) for width in (24, 8, 4)] == [2, 5, 10]
    assert Selection(NOON, NOON + timedelta(days=7)).interval(24) == 600


def test_names_are_made_of_labels():
    assert labelled("${__field.labels.series}", {"series": "KEY · a"}) == "KEY · a"
    assert labelled("{{grouping}} · {{ stream }}{{none}}", {"grouping": "KEY", "stream": "a"}) == "KEY · a"


def geomap(spec: dict[str, Any]) -> None:
    spec["type"] = "geomap"


def transformed(spec: dict[str, Any]) -> None:
    spec["transformations"] = [{"id": "reduce", "options": {}}]


def with_two_queries(spec: dict[str, Any]) -> None:
    spec["targets"] *= 2


def without_a_query(spec: dict[str, Any]) -> None:
    del spec["targets"]


def of_another_source(spec: dict[str, Any]) -> None:
    spec["targets"][0]["datasource"]["uid"] = "${loki}"


UNDRAWABLE = [
    (geomap, "is a geomap"),
    (transformed, "uses reduce"),
    (with_two_queries, "has 2 queries"),
    (without_a_query, "has 0 queries"),
    (of_another_source, "asks data source ${loki}"),
]


class Answering:
    """A server whose every answer is the same."""

    def __init__(self, answer):
        self._answer = answer

    def answer(self, *_):
        return self._answer


def sources(answer) -> DataSources:
    server: Any = Answering(answer)
    return DataSources(server, server)


def test_all_drawable_kinds_have_what_draws_them():
    assert {*OF_SERIES, *OF_TABLE} == {"timeseries", *TIMELESS}


def test_the_checked_in_dashboards_can_be_drawn():
    specs = [spec for dashboard in checked_in.dashboards().values() for spec in dashboard["panels"]]
    assert [Panel(spec, []).undrawable for spec in specs] == [""] * len(specs)


@pytest.mark.parametrize(("change", "says"), UNDRAWABLE, ids=[says for _, says in UNDRAWABLE])
def test_what_the_preview_cannot_draw_it_says(change, says, figures, tmp_path, monkeypatch):
    overview = copy.deepcopy(checked_in.dashboards()["overview"])
    change(overview["panels"][0])
    monkeypatch.setattr(checked_in, "dashboards", lambda: {"overview": overview})
    (saved,) = save(["overview"], sources([]), selection(), tmp_path)
    title, *others = [spec["title"] for spec in overview["panels"]]
    assert saved.undrawn == {title: says}
    assert saved.empty == others
    (figure,) = figures
    assert [" ".join(text.get_text().split()) for text in figure.axes[0].texts] == [
        f"the preview can't draw this: it {says}"
    ]


def test_a_panel_without_data_says_what_that_means(figures, tmp_path):
    pipeline = checked_in.dashboards()["pipeline"]
    list(save(["pipeline"], sources([]), selection(), tmp_path))
    (figure,) = figures
    said = {
        spec["title"]: " ".join(axes.texts[0].get_text().split())
        for spec, axes in zip(pipeline["panels"], figure.axes, strict=True)
    }
    assert said["How large are the workers' states?"] == "No keyed work"
    assert said["Is it falling behind?"] == "No run in this time range"


def spec_of(dashboard: str, title: str) -> dict[str, Any]:
    return next(spec for spec in checked_in.dashboards()[dashboard]["panels"] if spec["title"] == title)


@pytest.mark.parametrize(
    ("title", "label", "values"),
    [
        ("Does one source fall behind?", "source", [str(source) for source in range(10)]),
        ("Where does a batch's time go?", "stage", ["addBatch", "queryPlanning", "walCommit", "latestOffset"]),
    ],
)
def test_lines_of_one_grouping_can_be_told_apart(title, label, values):
    panel = Panel(spec_of("pipeline", title), [])
    names = [f"KEY · zipf-s10-w4 · {label} {value}" for value in values]
    assert len({panel.line(name) for name in names}) == len(values)
    assert len({panel.colour(name) for name in names}) == 1


def test_a_windows_value_is_a_stretch_and_a_point(figures, tmp_path):
    series = Series({"series": "KEY · a"}, "", [NOON, NOON + timedelta(seconds=10)], [1.0, 2.0])
    list(save(["overview"], sources([series]), selection(), tmp_path))
    (figure,) = figures
    titles = [spec["title"] for spec in checked_in.dashboards()["overview"]["panels"]]
    (line,) = figure.axes[titles.index("How uneven is the load?")].lines
    assert (line.get_drawstyle(), line.get_marker()) == ("steps-pre", "o")


@pytest.mark.parametrize(("highest", "shown"), [(3.0, [2.0]), (1.2, [])])
def test_where_an_alert_begins_is_a_line_unless_it_is_far_away(highest, shown, figures, tmp_path):
    answer = [Series({}, "KEY · a", [NOON, NOON + timedelta(minutes=1)], [1.0, highest])]
    axes = drawn(figures, "pipeline", "Is Kafka uneven?", answer, tmp_path)
    assert [line.get_ydata()[0] for line in axes.lines if line.is_dashed()] == shown
    said = Panel(spec_of("pipeline", "Is Kafka uneven?"), answer).text
    assert said.endswith("; dashed: 2")


def test_a_panel_without_an_alert_has_no_such_line():
    assert Panel(spec_of("pipeline", "How long does a batch take?"), []).thresholds == []


MANY = [f"{grouping} · zipf-s4-w100" for grouping in list(COLOURS)[:12]]


def drawn(figures, dashboard: str, title: str, answer, folder) -> Axes:
    """The axes of a panel, where that is the answer to all queries."""
    list(save([dashboard], sources(answer), selection(), folder))
    titles = [spec["title"] for spec in checked_in.dashboards()[dashboard]["panels"]]
    return figures[-1].axes[titles.index(title)]


@pytest.mark.parametrize(
    ("dashboard", "title"), [("groupings", "How uneven? STD_DEV"), ("groupings", "How fast? THROUGHPUT_RATIO")]
)
@pytest.mark.parametrize("runs", [1, 4, 5, 12])
def test_names_and_numbers_of_many_runs_do_not_overlap(dashboard, title, runs, figures, tmp_path):
    answer = [Series({"series": name}, "", [NOON], [1000.0 * (1 + at)]) for at, name in enumerate(MANY[:runs])]
    axes = drawn(figures, dashboard, title, answer, tmp_path)
    heading = next(text for text in axes.figure.texts if text.get_text() == title)
    boxes = [text.get_window_extent() for text in [heading, *axes.texts]]
    assert len(boxes) == 1 + 2 * runs
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


@pytest.fixture
def stats(figures) -> list[tuple[Axes, Callable[[list[str]], Panel]]]:
    """The axes of a stat panel of each size that the dashboards have, and the panel with series of given names."""
    every = [spec for dashboard in checked_in.dashboards().values() for spec in dashboard["panels"]]
    sizes = {(spec["gridPos"]["w"], spec["gridPos"]["h"]): spec for spec in every if spec["type"] == "stat"}

    def of(spec: dict[str, Any], names: list[str]) -> Panel:
        fields = {**spec["fieldConfig"], "defaults": {}}
        return Panel({**spec, "fieldConfig": fields}, [Series({}, name, [NOON], [1.0]) for name in names])

    filled = [partial(of, spec) for spec in sizes.values()]
    draw(checked_in.dashboards()["overview"], [panel(["KEY · a"]) for panel in filled], [], selection())
    cards = [artist for artist in figures[-1].artists if isinstance(artist, Rectangle)]
    for axes, card, heading in zip(figures[-1].axes, cards, figures[-1].texts[-len(cards) :], strict=True):
        assert within(axes.get_window_extent(), card.get_window_extent())
        assert not axes.get_window_extent().overlaps(heading.get_window_extent())
    return list(zip(figures[-1].axes, filled, strict=True))


def within(box: Bbox, whole: Bbox) -> bool:
    return whole.contains(*box.min) and whole.contains(*box.max)


def texts_of(axes: Axes, panel: Panel) -> list[str]:
    """The texts of a stat panel, of which no two overlap, and all lie within the panel."""
    axes.clear()
    TIMELESS["stat"](axes, panel)
    boxes = [text.get_window_extent() for text in axes.texts]
    texts = [text.get_text() for text in axes.texts]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2)), texts
    assert all(within(box, axes.get_window_extent()) for box in boxes), texts
    return texts


@pytest.mark.parametrize("figure", ["0", "12.3 MiB", "346 k tuples/s", "1,234,567.89"])
def test_a_stats_names_and_figures_do_not_overlap_and_are_whole(figure, stats, monkeypatch):
    monkeypatch.setattr(Panel, "write", lambda *_: figure)
    streams = ["country-skew-80-s5-w10", "zipf-s4-w100"]
    alone = [[f"{grouping} · {streams[0]}"] for grouping in COLOURS]
    of_streams = [[f"{grouping} · {stream}" for stream in streams] for grouping in COLOURS]
    of_one = [[f"{grouping} · a" for grouping in sorted(COLOURS, key=len)[-runs:]] for runs in (2, 3, 4, 5, 8, 12, 24)]
    for axes, panel in stats:
        for names in [*alone, *of_streams, *of_one]:
            shown = [name.removesuffix(" · a") for name in sorted(names)]
            assert texts_of(axes, panel(names)) == [text for name in shown for text in (name, figure)]


@pytest.mark.parametrize("runs", [1, 2, 4, 12])
def test_a_stats_names_that_are_too_long_are_cut_and_its_figures_are_not(runs, stats, monkeypatch):
    monkeypatch.setattr(Panel, "write", lambda *_: "346 k tuples/s")
    names = [f"{grouping} · {at}{'x' * 240}" for at, grouping in enumerate(list(COLOURS)[:runs])]
    for axes, panel in stats:
        texts = texts_of(axes, panel(names))
        assert texts[1::2] == ["346 k tuples/s"] * runs
        for name, text in zip(sorted(names), texts[::2], strict=True):
            assert text.endswith("…")
            assert name.startswith(text[:-1])
            assert len(text) >= len("BOUNDED_LOAD · 0…")


def test_every_run_of_twelve_is_in_a_narrow_panels_legend(figures, tmp_path):
    answer = [Series({"series": name}, "", [NOON], [1.0]) for name in MANY]
    drawn(figures, "overview", "What does a batch wait for?", answer, tmp_path)
    assert all(len(legend.get_texts()) == len(MANY) for legend in figures[-1].legends)
    assert len(figures[-1].legends) == 4


def test_an_axis_of_bytes_has_round_numbers_of_them(figures, tmp_path):
    answer = [Series({}, "KEY · a", [NOON, NOON + timedelta(minutes=1)], [1e6, 3.9e6])]
    axes = drawn(figures, "pipeline", "How much memory does the state use?", answer, tmp_path)
    written = [axes.yaxis.get_major_formatter()(at) for at in axes.get_yticks()]
    assert "1 MiB" in written
    assert "2 MiB" in written
    assert not any("." in text for text in written)


@pytest.mark.parametrize(("change", "says"), UNDRAWABLE[:2])
def test_that_is_no_rule_for_a_dashboard(change, says):
    lint = pytest.importorskip("unskew.dashboards.lint", exc_type=ImportError)
    overview = copy.deepcopy(checked_in.dashboards()["overview"])
    change(overview["panels"][0])
    assert not any(says in problem for problem in lint.lint({"overview": overview}))


def test_an_answer_of_another_shape_is_not_drawn():
    stat = checked_in.dashboards()["overview"]["panels"][0]
    assert Panel.of(stat, sources(Table({"x": [1]})), selection()).undrawable == "is a stat of a table"
    series = Series({"series": "KEY · a"}, "", [NOON], [1.0])
    assert Panel.of(stat, sources([series]), selection()).undrawable == ""


def test_units_that_are_not_known_stand_behind_the_number():
    stat = copy.deepcopy(checked_in.dashboards()["overview"]["panels"][0])
    stat["fieldConfig"]["defaults"]["unit"] = "furlongs"
    assert Panel(stat, []).write(8.5) == "8.5 furlongs"


@pytest.mark.parametrize("seconds", [1, 20, 149, 153, 179, 181, 3600, 10_799, 70 * 3600, 86_400 * 9])
def test_any_stretch_of_time_has_a_unit_for_its_ticks(seconds):
    """Matplotlib warns where it finds none, in the middle of the demo's output."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    locator = mdates.AutoDateLocator(minticks=LEAST_TICKS, maxticks=MOST_TICKS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(locator.tick_values(start, start + timedelta(seconds=seconds))) >= LEAST_TICKS
