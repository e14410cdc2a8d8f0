"""Queries of Prometheus, judged by promtool on series that are known."""

import json
import re
import time

import pytest
import yaml

from tests.monitoring.conftest import prometheus, prometheus_program, promtool  # noqa: F401
from tests.waiting import awaited
from unskew.apps.metrics import catalogue
from unskew.apps.metrics.catalogue import Sample
from unskew.apps.metrics.outputs import Exporter
from unskew.dashboards.checked_in import dashboards
from unskew.deploy.servers.stack import RULES

BEGUN, EVERY, RANGE = 100, 2, 120  # s


def expression(title: str) -> str:
    """The query of a panel, with all runs selected."""
    (panel,) = (panel for panel in dashboards()["pipeline"]["panels"] if panel["title"] == title)
    return select_all(panel["targets"][0]["expr"])


def select_all(query: str) -> str:
    """A query with all runs selected, of the time range and the interval that tests have."""
    times = {"$__range": f"{RANGE}s", "$__interval": f"{EVERY}s"}
    return re.sub(r"\$(\w+)", lambda found: times.get(found[0], ".*"), query)


def judged(promtool, folder, *tests, rules=()):
    file = folder / "test.json"
    named = [{"interval": f"{EVERY}s", **test} for test in tests]
    file.write_text(json.dumps({"rule_files": [*map(str, rules)], "evaluation_interval": f"{EVERY}s", "tests": named}))
    promtool("test", "rules", file)


@pytest.mark.programs
def test_a_constant_rate_does_not_climb_after_the_start_and_ends_with_its_run(promtool, tmp_path):
    """A batch of 4,000 tuples each four seconds, from the first ones on; in the end no scrape finds the counter."""
    series = 'unskew_run_tuples_total{run="zipf-s1-w4-kg", grouping="KEY"}'
    rate = expression("How many tuples a second?")

    def found(at: int, within: int) -> dict[str, object]:
        near = f"count(abs(({rate}) - 1000) <= {within})"
        return {"expr": near, "eval_time": f"{at}s", "exp_samples": [{"value": 1}]}

    def values(steps: int) -> str:
        return " ".join(str(4_000 * (1 + at // 2)) for at in range(steps))

    ended = 90 * EVERY
    gone = [{"expr": rate, "eval_time": f"{ended + later}s", "exp_samples": []} for later in (0, 10, 40, 300)]
    judged(
        promtool,
        tmp_path,
        {
            "input_series": [{"series": series, "values": f"_x{BEGUN // EVERY - 1} {values(100)}"}],
            "promql_expr_test": [found(BEGUN + later, 250) for later in (14, 20, 30, 45, 60, 61, 90, 180)],
        },
        {
            "input_series": [{"series": series, "values": f"{values(90)} stale"}],
            "promql_expr_test": [found(ended - 1, 100), *gone],
        },
    )


@pytest.mark.programs
@pytest.mark.parametrize("ending", ["the process ends", "another run begins"])
def test_a_real_server_has_no_rate_after_a_runs_end(ending, prometheus):
    common = {"run": "zipf-s1-w4-kg", "source_type": "T", "grouping": "KEY", "workers": "4"}
    rate = expression("How many tuples a second?")
    with Exporter(0, "127.0.0.1") as exporter:
        server = prometheus(targets={"unskew": [f"127.0.0.1:{exporter.port}"]}, every=0.2)
        begun = time.time()

        def there():
            tuples = round(1000 * (time.time() - begun))
            exporter.write([Sample(catalogue.RUN, 0, {"tuples": tuples})], common)
            return [float(series["value"][1]) for series in server.query(rate)]

        awaited(lambda: time.time() > begun + 3 and there(), "a rate")
        (last,) = awaited(there, "the last rate")
        assert last > 0
        if ending == "another run begins":
            exporter.forget()
            exporter.write([Sample(catalogue.RUN, 0, {"tuples": 0})], common | {"run": "zipf-s1-w4-dkg"})
            ended = 'absent(unskew_run_tuples_total{run="zipf-s1-w4-kg"})'
            awaited(lambda: server.query(ended), ended)
            assert all("dkg" in series["metric"]["run"] for series in server.query(rate))
    if ending == "the process ends":
        awaited(lambda: server.query("up == 0"), "a scrape that found nothing")
        assert server.query("increase(unskew_run_tuples_total[1m]) > 0"), "the minute still has samples"
        assert server.query(rate) == []


KEY = 'run="zipf-s1-w4-kg", grouping="KEY"'
#: Mark → series, a sample each two seconds; and the moments (s) that are marked.
CHANGES = {
    "Starts and restarts": (
        {f"unskew_query_batch_timestamp_seconds{{{KEY}}}": "_ _ 7 7 8 9 stale _ _ 11 12 12"},
        [4, 18],
    ),
    "Scale-ups": (
        {
            f'unskew_scheme_value{{{KEY}, internal="scale_ups", source="0"}}': "_ 0 0 1 1 1 3 stale _ 3 3 4",
            f'unskew_scheme_value{{{KEY}, internal="scale_ups", source="1"}}': "_ 2 2 2 2 3 3 stale _ 3 3 3",
            f'unskew_scheme_value{{{KEY}, internal="hot", source="1"}}': "_ 0 1 2 3 4 5 stale _ 6 7 8",
        },
        [6, 10, 12, 22],
    ),
    "Scale-downs": (
        {f'unskew_scheme_value{{{KEY}, internal="scale_downs", source="0"}}': "_ 0 0 0 2 2 2 2 2 2 2 2"},
        [8],
    ),
    "Rebalances": ({f"unskew_rebalance_plan{{{KEY}}}": "_ _ _ 1 1 1 2 2 stale _ 4 4"}, [6, 12, 20]),
}


@pytest.mark.programs
@pytest.mark.parametrize("mark", dashboards()["pipeline"]["annotations"]["list"], ids=lambda mark: mark["name"])
def test_what_happens_is_marked_once(mark, promtool, tmp_path):
    series, moments = CHANGES[mark["name"]]
    marked = f"count(({select_all(mark['target']['expr'])}) > 0)"
    asked = [
        {"expr": marked, "eval_time": f"{at}s", "exp_samples": [{"value": 1}] if at in moments else []}
        for at in range(0, 24, EVERY)
    ]
    given = [{"series": name, "values": values} for name, values in series.items()]
    judged(promtool, tmp_path, {"input_series": given, "promql_expr_test": asked})


ALARMED = {
    re.search(r"Dashed: where the alert (\w+) begins\.", panel["description"])[1]: panel
    for panel in dashboards()["pipeline"]["panels"]
    if "Dashed" in panel["description"]
}
ALERTS = {
    rule.get("alert"): rule["expr"]
    for path in RULES
    for group in yaml.safe_load(path.read_text())["groups"]
    for rule in group["rules"]
}
SAMPLES = {
    'unskew_worker_tuples{run="zipf-s1-w4-kg", grouping="KEY", worker="0"}': "900x400",
    'unskew_worker_tuples{run="zipf-s1-w4-kg", grouping="KEY", worker="1"}': "0x400",
    'unskew_worker_tuples{run="zipf-s1-w4-kg", grouping="KEY", worker="2"}': "0x400",
    'unskew_query_lag{run="zipf-s1-w4-kg", grouping="KEY"}': "0+500x400",
    'unskew_query_processed_rate_per_second{run="zipf-s1-w4-kg", grouping="KEY"}': "100x400",
    'unskew_query_partition_skew_ratio{run="zipf-s1-w4-kg", grouping="KEY"}': "3x400",
    'unskew_query_batch_timestamp_seconds{run="zipf-s1-w4-kg", grouping="KEY"}': "7x400",
    'unskew_run_tuples_total{run="zipf-s1-w4-kg", grouping="KEY"}': "0+60x400",
    'unskew_run_rejected_total{run="zipf-s1-w4-kg", grouping="KEY"}': "0+20x400",
    'unskew_run_late_total{run="zipf-s1-w4-kg", grouping="KEY"}': "0+15x400",
}


def test_a_dashed_line_is_there_for_every_alert_that_compares_what_a_panel_shows():
    others = {
        "KafkaPartitionHot",  # 0 or 1
        "MessagesGone",  # any is too many, as of lost points
        "PointsLost",
        "TransactionHangs",
        "MetricsNotArriving",  # of what doesn't answer there is nothing to show
        "RunEnded",
        "BatchesNotBegun",
        "StatesGrowing",  # beside the states of six hours before
        "ResultsStale",  # burn rates, of which no panel has any
        "ResultsOftenStale",
        "BatchesSlow",
        "BatchesOftenSlow",
    }
    assert ALARMED.keys() == ALERTS.keys() - others - {None}


@pytest.mark.programs
def test_a_panel_with_an_alerts_figure_shows_what_the_alert_compares(promtool, tmp_path):
    asked = []
    for alert, panel in ALARMED.items():
        expr = ALERTS[alert].strip()
        begins = re.search(r"(?:.* and )?(?P<measured>.+) > (?P<figure>[\d.]+)$", expr)
        assert begins is not None
        steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        assert [step["value"] for step in steps] == [None, float(begins["figure"])]
        both = f"abs(({expression(panel['title'])}) - on (run) ({begins['measured']})) < 1e-9"
        asked += [f"count({expr})", f"count({both})"]
    test = {
        "input_series": [{"series": series, "values": values} for series, values in SAMPLES.items()],
        "promql_expr_test": [{"expr": each, "eval_time": "700s", "exp_samples": [{"value": 1}]} for each in asked],
    }
    judged(promtool, tmp_path, test, rules=RULES)
