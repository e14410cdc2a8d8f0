"""A selection gets into queries as Grafana writes it there; the preview says which panels it can't draw."""

import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import combinations, product
from typing import Any

import matplotlib.dates as mdates
import pytest
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from tests.pictures import figures  # noqa: F401
from unskew.dashboards import checked_in
from unskew.dashboards.preview.data_sources import DataSources, Series, Table, fill_labels
from unskew.dashboards.preview.drawing import LEAST_TICKS, MOST_TICKS, TIMELESS, draw
from unskew.dashboards.preview.files import save
from unskew.dashboards.preview.panels import Panel, find_override
from unskew.dashboards.preview.selection import Selection
from unskew.grouping.registry import COLOURS

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
    assert fill_labels("${__field.labels.series}", {"series": "KEY · a"}) == "KEY · a"
    assert fill_labels("{{grouping}} · {{ stream }}{{none}}", {"grouping": "KEY", "stream": "a"}) == "KEY · a"


#: What is changed of a panel → what the preview says of it.
UNDRAWABLE: dict[str, dict[str, Any]] = {
    "is a geomap": {"type": "geomap"},
    "uses reduce": {"transformations": [{"id": "reduce", "options": {}}]},
    "has 2 queries": {"targets": [{}] * 2},
    "has 0 queries": {"targets": []},
    "asks data source ${loki}": {"datasource": {"uid": "${loki}"}},
}


class Answering:
    """A server whose every answer is the same."""

    def __init__(self, answer):
        self._answer = answer

    def answer(self, *_):
        return self._answer


def sources(answer) -> DataSources:
    server: Any = Answering(answer)
    return DataSources(server, server)


def test_the_checked_in_dashboards_can_be_drawn():
    specs = [spec for dashboard in checked_in.dashboards().values() for spec in dashboard["panels"]]
    assert [Panel(spec, []).undrawable for spec in specs] == [""] * len(specs)


def test_what_the_preview_cannot_draw_it_says(figures, tmp_path, monkeypatch, subtests):
    whole = checked_in.dashboards()["overview"]
    title, *others = [spec["title"] for spec in whole["panels"]]
    for says, change in UNDRAWABLE.items():
        changed = {**whole, "panels": [{**whole["panels"][0], **change}, *whole["panels"][1:]]}
        monkeypatch.setattr(checked_in, "dashboards", lambda changed=changed: {"overview": changed})
        with subtests.test(says=says):
            (saved,) = save(["overview"], sources([]), selection(), tmp_path)
            assert (saved.undrawn, saved.empty) == ({title: says}, others)
            [text] = figures[-1].axes[0].texts
            assert says in " ".join(text.get_text().split())


def spec_of(dashboard: str, title: str) -> dict[str, Any]:
    return next(spec for spec in checked_in.dashboards()[dashboard]["panels"] if spec["title"] == title)


def test_overrides_are_found_as_grafana_finds_them():
    """It takes a pattern for the whole name, unless the pattern is between slashes."""
    for pattern, found in (("/^KEY · /", 3), ("^KEY · ", None), ("KEY · .*", 3), ("/^KEY$/", None)):
        override = {"matcher": {"id": "byRegexp", "options": pattern}, "properties": [{"id": "decimals", "value": 3}]}
        assert find_override({"fieldConfig": {"overrides": [override]}}, "KEY · a", "decimals") == found


def test_lines_of_one_grouping_can_be_told_apart():
    for dashboard, title, label, values in (
        ("pipeline", "Does one source fall behind?", "source", [str(source) for source in range(10)]),
        ("pipeline", "Where does a batch's time go?", "stage", ["addBatch", "queryPlanning", "walCommit"]),
        ("balance", "What share do the hottest keys have?", "rank", [str(rank) for rank in range(1, 11)]),
    ):
        panel = Panel(spec_of(dashboard, title), [])
        names = [f"KEY · zipf-s10-w4 · {label} {value}" for value in values]
        assert len({panel.line(name) for name in names}) == len(values)
        assert len({panel.colour(name) for name in names}) == 1


def test_where_an_alert_begins_is_a_line_unless_it_is_far_away(figures, tmp_path):
    for highest, shown in ((3.0, [2.0]), (1.2, [])):
        answer = [Series({}, "KEY · a", [NOON, NOON + timedelta(minutes=1)], [1.0, highest])]
        axes = drawn(figures, "pipeline", "Is Kafka uneven?", answer, tmp_path)
        heights = [set(line.get_ydata()) for line in axes.lines if line.is_dashed()]  # a mark's are two
        assert [height for height in heights if len(height) == 1] == [{each} for each in shown]


def test_prometheus_marks_where_a_series_is_above_0():
    answer = [Series({}, "KEY · a", [NOON, NOON + timedelta(minutes=1)], [0.0, 2.0])]
    marks = sources(answer).marks(checked_in.dashboards()["pipeline"], selection())
    assert {mark.time for mark in marks} == {NOON + timedelta(minutes=1)}
    assert [mark.kind for mark in marks] == ["Starts and restarts", "Scale-ups", "Scale-downs", "Rebalances"]


MANY = [f"{grouping} · zipf-s4-w100" for grouping in list(COLOURS)[:12]]


def drawn(figures, dashboard: str, title: str, answer, folder) -> Axes:
    """The axes of a panel, where that is the answer to all queries."""
    list(save([dashboard], sources(answer), selection(), folder))
    titles = [spec["title"] for spec in checked_in.dashboards()[dashboard]["panels"]]
    return figures[-1].axes[titles.index(title)]


@pytest.mark.parametrize("runs", [1, 4, 5, 12])
def test_names_and_numbers_of_many_runs_do_not_overlap(runs, figures, tmp_path):
    title = "How uneven? STD_DEV"
    answer = [Series({"series": name}, "", [NOON], [1000.0 * (1 + at)]) for at, name in enumerate(MANY[:runs])]
    axes = drawn(figures, "groupings", title, answer, tmp_path)
    heading = next(text for text in axes.figure.texts if text.get_text() == title)
    boxes = [text.get_window_extent() for text in [heading, *axes.texts]]
    assert len(boxes) == 1 + 2 * runs
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def test_headings_of_many_runs_do_not_overlap(figures):
    plain = {"transformations": [], "fieldConfig": {"defaults": {}, "overrides": []}}
    runs = [f"{grouping} · demo-1129-152500-s4-w10" for grouping in ("BOUNDED_LOAD", "DYNAMIC_KEY", "PLANNED")]
    answer = Table({"internal": ["remembered"]} | {run: [4] for run in runs})
    panel = Panel(spec_of("keys", "What does the grouping know?") | plain, answer)
    draw(checked_in.dashboards()["keys"], [panel], [], selection())
    headings = figures[-1].axes[0].texts[::2]  # each before its column's only value
    assert [text.get_text()[:8] for text in headings] == ["internal", "BOUNDED_", "DYNAMIC_", "PLANNED "]
    boxes = [text.get_window_extent() for text in headings]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


@pytest.mark.parametrize("key", ["$x_$", "a\n\x00\ud800", "k" * 65_536], ids=["formula", "not printable", "long"])
def test_any_key_is_drawn_as_text(key, figures):
    """Of 64 KiB not at length, and in one line."""
    dashboard = checked_in.dashboards()["keys"]
    kinds = {spec["type"]: spec for spec in dashboard["panels"]}
    of_series, of_table = (
        [Series({}, key, [NOON], [1.0])],
        Table({kinds["barchart"]["options"]["xField"]: [key], "a": [1]}),
    )
    answers = {
        "table": of_table,
        "barchart": of_table,
        "timeseries": of_series,
        "stat": of_series,
        "bargauge": of_series,
    }
    spec = {**kinds["barchart"], "transformations": [], "fieldConfig": {"defaults": {}, "overrides": []}}
    draw(dashboard, [Panel({**spec, "type": kind}, answer) for kind, answer in answers.items()], [], selection())
    shown = [text.get_text() for text in figures[-1].findobj(Text)]
    assert sum(text.startswith(key[:2].strip()) for text in shown) >= len(answers)
    assert max(map(len, shown)) < 300


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


def test_a_stats_names_that_are_too_long_are_cut_and_its_figures_are_not(stats, monkeypatch):
    monkeypatch.setattr(Panel, "write", lambda *_: "346 k tuples/s")
    for runs, (axes, panel) in product((1, 2, 4, 12), stats):
        names = [f"{grouping} · {at}{'x' * 240}" for at, grouping in enumerate(list(COLOURS)[:runs])]
        texts = texts_of(axes, panel(names))
        assert texts[1::2] == ["346 k tuples/s"] * runs
        for name, text in zip(sorted(names), texts[::2], strict=True):
            assert text.endswith("…")
            assert name.startswith(text[:-1])
            assert len(text) >= len("BOUNDED_LOAD · 0…")


def test_any_stretch_of_time_has_a_unit_for_its_ticks():
    """Matplotlib warns where it finds none, in the middle of the demo's output."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    locator = mdates.AutoDateLocator(minticks=LEAST_TICKS, maxticks=MOST_TICKS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seconds in (1, 20, 149, 153, 179, 181, 3600, 10_799, 70 * 3600, 86_400 * 9):
            assert len(locator.tick_values(start, start + timedelta(seconds=seconds))) >= LEAST_TICKS


def test_an_answer_of_another_shape_is_not_drawn():
    stat = checked_in.dashboards()["overview"]["panels"][0]
    assert Panel.of(stat, sources(Table({"x": [1]})), selection()).undrawable == "is a stat of a table"
    series = Series({"series": "KEY · a"}, "", [NOON], [1.0])
    assert Panel.of(stat, sources([series]), selection()).undrawable == ""
