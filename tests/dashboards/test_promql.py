"""Queries of Prometheus, judged by promtool on series that are known."""

import json
import re
import time
from dataclasses import dataclass
from itertools import accumulate, chain

import numpy as np
import pytest
import yaml

from tests.http import series
from tests.monitoring.conftest import prometheus, prometheus_program, promtool  # noqa: F401
from tests.waiting import awaited
from unskew.apps.aggregator.observer import Distribution, HotKey
from unskew.apps.checkpoint.versions import Totals
from unskew.apps.metrics import catalogue
from unskew.apps.metrics.catalogue import Sample
from unskew.apps.metrics.metrics_reporter import sample_loads, sample_window
from unskew.apps.metrics.outputs import Exporter
from unskew.dashboards.checked_in import dashboards
from unskew.deploy.servers.stack import RULES
from unskew.grouping.measures import std_dev

BEGUN, EVERY, RANGE = 100, 2, 120  # s


def expression(title: str, dashboard: str = "pipeline") -> str:
    """The query of a panel, with all runs selected."""
    (panel,) = (panel for panel in dashboards()[dashboard]["panels"] if panel["title"] == title)
    return select_all(panel["targets"][0]["expr"])


def select_all(query: str) -> str:
    """A query with all runs selected, of the time range and the interval that tests have."""
    times = {"$__range": f"{RANGE}s", "$__interval": f"{EVERY}s"}
    return re.sub(r"\$[a-z_]\w*", lambda found: times.get(found[0], ".*"), query)


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


@pytest.mark.programs
@pytest.mark.parametrize(("run", "stream"), [("zipf-s1-w14-kg", "zipf-s1-w14"), ("clicks by-user", "clicks by-user")])
def test_a_run_is_named_without_its_grouping_and_a_watched_query_by_its_name(run, stream, promtool, tmp_path):
    given = {"series": f'unskew_query_lag{{run="{run}", grouping="KEY"}}', "values": "7"}
    shown = [{"labels": f'{{run="{run}", grouping="KEY", stream="{stream}"}}', "value": 7}]
    asked = {"expr": expression("How many messages wait?"), "eval_time": "0s", "exp_samples": shown}
    judged(promtool, tmp_path, {"input_series": [given], "promql_expr_test": [asked]})


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


@dataclass(frozen=True)
class Recorded:
    """A run's page as scrapes find it."""

    series: dict[str, str]  #: Its values, one for each scrape; then it is gone, because the run has ended.
    windows: list[Distribution]  #: All that closed.
    seen: list[Distribution]  #: The newest one of each scrape that finds another one than the scrape before.
    busy: list[list[float]]  #: Each worker's time at work (s), in the newest batch of each such scrape.


WORKERS = 3
#: How many windows close before each scrape but the first one.
CLOSED = [1, 3, 0, 2, 1, 0, 0, 4, 1, 0, 1]


def record(seed: int) -> Recorded:
    """A batch for each window, and batches without tuples; the last window has few keys."""
    draws = np.random.default_rng(seed)
    common = {"run": "zipf-s1-w3-kg", "source_type": "T", "grouping": "KEY", "workers": str(WORKERS)}
    scrapes: list[dict[str, float]] = []
    windows: list[Distribution] = []
    times: list[list[float]] = []
    totals = Totals()
    with Exporter(0, "127.0.0.1") as exporter:
        exporter.write([Sample(catalogue.WORKER, 0, {"closed": 0}, {"worker": str(w)}) for w in range(WORKERS)], common)
        scrapes.append(series(exporter.url))
        for scrape, new in enumerate(CLOSED, 1):
            for _ in range(new):
                end, keys = 1000 * (1 + len(windows)), 2 if scrape == len(CLOSED) else int(draws.integers(3, 30))
                hottest = [HotKey(f"k{at}", 50 - at, 1, int(draws.integers(1, 4))) for at in range(min(keys, 10))]
                loads = draws.integers(100, 900, WORKERS)
                windows.append(Distribution(end - 1000, end, loads, loads, loads // 9, keys, hottest))
                totals = totals.with_window(loads.tolist(), 0, keys)
                times.append(draws.random(WORKERS).tolist())
                exporter.write(sample_loads(loads.tolist(), times[-1], end), common)
                exporter.write(sample_window(windows[-1], totals), common)
                exporter.write([Sample(catalogue.QUERY, end, {"batch": end / 1000})], common)
            if not new:
                exporter.write(sample_loads([0] * WORKERS, [], 0), common)
                exporter.write([Sample(catalogue.QUERY, 0, {"batch": 1000 + scrape})], common)
            scrapes.append(series(exporter.url))
    values = {name: [scrape.get(name, "stale") for scrape in scrapes] for name in dict.fromkeys(chain(*scrapes))}
    newest = [count - 1 for count, new in zip(accumulate(CLOSED), CLOSED, strict=True) if new]
    return Recorded(
        {name: " ".join(map(str, [*of, "stale"])) for name, of in values.items()},
        windows,
        [windows[at] for at in newest],
        [times[at] for at in newest],
    )


def near(query: str, value: float, at: float) -> dict[str, object]:
    """A query has one value at this moment (s), which is this one."""
    return {"expr": f"count(abs(({query}) - {value}) < 1e-9)", "eval_time": f"{at}s", "exp_samples": [{"value": 1}]}


@pytest.mark.programs
def test_balance_in_a_time_range_is_that_of_its_windows(promtool, tmp_path, seed):
    """While the run goes on, and after its end."""
    run = record(seed)
    keys, pairs = (sum(each) for each in zip(*((w.distinct_keys, w.keys.sum()) for w in run.seen), strict=True))
    expected = {
        "How uneven? STD_DEV": std_dev(sum(window.tuples for window in run.windows)),
        "At what cost? DIST_COST": pairs / keys,
        "How slow is the slowest worker?": sum(map(max, run.busy)) / sum(sum(busy) / WORKERS for busy in run.busy),
    }
    ended = EVERY * (1 + len(CLOSED))
    asked = [
        near(expression(title, "balance"), of, at) for title, of in expected.items() for at in (ended - 1, ended + 20)
    ]
    given = [{"series": name, "values": values} for name, values in run.series.items()]
    judged(promtool, tmp_path, {"input_series": given, "promql_expr_test": asked})


@pytest.mark.programs
def test_a_watched_query_which_tells_no_distinct_keys_has_a_dist_cost(promtool, tmp_path):
    """Of three batches seen; the last one is there for long, because no other comes."""
    values = {"unskew_window_dist_cost": "_ 1 2 2 6x9", "unskew_window_total_tuples": "_ 10 20 20 30x9"}
    given = [{"series": f"{name}{{{KEY}}}", "values": of} for name, of in values.items()]
    asked = [near(expression("At what cost? DIST_COST", "balance"), 3, 13 * EVERY)]
    judged(promtool, tmp_path, {"input_series": given, "promql_expr_test": asked})


@pytest.mark.programs
def test_lines_are_of_the_newest_window_or_batches_and_end_with_their_run(promtool, tmp_path, seed):
    """Ranks that the newest window lacks are gone."""
    run = record(seed)
    last = run.windows[-1]
    name, tuples = "zipf-s1-w3-kg", int(last.tuples.sum())
    loads = [
        sum(float(each) for each in values.split() if each != "stale")
        for series, values in run.series.items()
        if series.startswith("unskew_task_tuples")
    ]
    expected = {
        ("How uneven is the load?", "run"): {name: std_dev(loads) / 100},
        ("Do the workers stay together?", "worker"): {str(w): of / sum(loads) for w, of in enumerate(loads)},
        ("How many keys does each worker hold?", "worker"): {str(w): of for w, of in enumerate(last.keys)},
        ("How long is each worker at work in a batch?", "worker"): {str(w): of for w, of in enumerate(run.busy[-1])},
        ("How hot is the hottest key?", "run"): {name: last.hottest[0].tuples},
        ("How many workers does the hottest key have?", "run"): {name: last.hottest[0].workers},
        ("What share do the hottest keys have?", "rank"): {"1": 50 / tuples, "2": 49 / tuples},
    }
    ended = EVERY * (1 + len(CLOSED))
    asked = []
    for (title, label), values in expected.items():
        shown = expression(title, "balance")
        asked.append({"expr": shown, "eval_time": f"{ended}s", "exp_samples": []})
        asked.append(near(f"count({shown})", len(values), ended - 1))
        for one, value in values.items():
            chosen = f'({shown}) and on ({label}) label_replace(vector(1), "{label}", "{one}", "", "")'
            asked.append(near(chosen, value, ended - 1))
    given = [{"series": name, "values": values} for name, values in run.series.items()]
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
    'unskew_task_tuples{run="zipf-s1-w4-kg", grouping="KEY", worker="0"}': "900x400",
    'unskew_task_tuples{run="zipf-s1-w4-kg", grouping="KEY", worker="1"}': "0x400",
    'unskew_task_tuples{run="zipf-s1-w4-kg", grouping="KEY", worker="2"}': "0x400",
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
