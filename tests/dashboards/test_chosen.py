"""What is chosen gets into queries as Grafana puts it there."""

from datetime import UTC, datetime, timedelta

import pytest

from unskew.dashboards.preview.chosen import Chosen, labelled

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


def chosen(**values: list[str]) -> Chosen:
    return Chosen(NOON, NOON + timedelta(minutes=30), values)


def test_flux_gets_times_period_and_bucket():
    query = "from(bucket: v.defaultBucket) |> range(start: v.timeRangeStart, stop: v.timeRangeStop)"
    assert chosen().in_flux(query, "mine", 24) == (
        'from(bucket: "mine") |> range(start: 2024-01-01T12:00:00.000Z, stop: 2024-01-01T12:30:00.000Z)'
    )
    assert chosen().in_flux("every: v.windowPeriod", "mine", 24) == "every: 2s"


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
    assert chosen(run=values).in_flux("/^${run:regex}$/", "mine", 24) == flux
    assert chosen(run=values).in_promql('"$run"', 24) == promql


def test_promql_gets_its_ranges():
    asked = 'label_replace(rate(x[$__rate_interval]) / increase(x[$__range]), "stream", "$1", "run", "(.+)")'
    assert chosen().in_promql(asked, 24) == (
        'label_replace(rate(x[8s]) / increase(x[1800s]), "stream", "$1", "run", "(.+)")'
    )


def test_a_narrow_panel_has_fewer_points_and_a_long_range_too():
    assert [chosen().interval(width) for width in (24, 8, 4)] == [2, 5, 10]
    assert Chosen(NOON, NOON + timedelta(days=7)).interval(24) == 600


def test_names_are_made_of_labels():
    assert labelled("${__field.labels.series}", {"series": "KEY · a"}) == "KEY · a"
    assert labelled("{{grouping}} · {{ stream }}{{none}}", {"grouping": "KEY", "stream": "a"}) == "KEY · a"
