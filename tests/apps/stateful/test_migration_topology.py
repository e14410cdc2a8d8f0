"""States that move, in Spark: in every batch, and to more workers and fewer; the results are those of one process."""

from collections import Counter, defaultdict

import pytest
from pyspark import cloudpickle

from tests.apps.conftest import count_by_key, countries, publish, read_results, skewed
from tests.apps.stateful import driver
from tests.apps.stateful.driver import TallyOfKinds
from tests.apps.stateful.tallies import published
from tests.harness.topology import START
from tests.sessions import sessions
from unskew.apps.checkpoint.plan_states import PlanStateLog
from unskew.apps.worker.stateful.state_reader import States
from unskew.operators import Sessions

pytestmark = [pytest.mark.nightly(group="keyed"), pytest.mark.spark, pytest.mark.kafka]
cloudpickle.register_pickle_by_value(driver)  # the tasks can't import the tests

#: A plan in every batch in which workers' measured times differ: in most.
ALWAYS = {"theta_max": 0.0, "window": 1}


@pytest.mark.parametrize("grouping", ["MIXED", "CONSISTENT_HASH"])
def test_keys_move_in_every_batch(grouping, settings, drain, connection, topic):
    keys, gap = skewed(6_000), 200
    ms = [START + 7 * i for i in range(len(keys))]
    options = ALWAYS if grouping == "MIXED" else {"threshold": 0.0, "rounds": 99, "method": "halving", "tokens": 64}
    run = settings(
        grouping, time="event", window=5.0, lateness=0.5, max_tuples=600, options=options, work=Sessions(gap / 1000)
    )
    publish(connection, topic, 2, countries(keys), ms=ms)
    _, reports = drain(run)
    found = Counter(
        (value["key"], *(value["fields"][name] for name in ("start", "last", "count")))
        for value in dict(read_results(run, "results")).values()
    )
    expected = Counter(sessions(zip(keys, ms, strict=True), gap))
    assert set(found) <= set(expected)
    assert set(found.values()) == {1}
    over = START + 7 * len(keys) - 2 * 5_000 - gap
    assert {each for each in expected if each[2] < over} <= set(found)
    moved = [rebalance for report in reports for rebalance in report.rebalances]
    assert len(moved) > 2
    assert sum(rebalance.keys for rebalance in moved) > 10
    assert count_by_key(run) == Counter(keys)


@pytest.mark.parametrize(
    ("grouping", "more"), [("KEY", {}), ("MIXED", {"options": ALWAYS}), ("D_CHOICES", {"merge_every": "1 batch"})]
)
def test_more_workers_and_fewer(grouping, more, settings, spark, drain, connection, topic):
    """4, then 9, then 2 workers on one checkpoint: every state goes on as the run before left it.

    The plan is made in a run's first batch, and routes from its third one on: a run has four with tuples.
    """
    keys = skewed(3_000)
    seen, results = 0, []
    for workers, stop in ((4, 1_000), (9, 2_000), (2, 3_000)):
        run = settings(grouping, workers=workers, ttl=3600.0, max_tuples=300, work=TallyOfKinds("offset"), **more)
        publish(connection, topic, 2, countries(keys[seen:stop]))
        _, reports = drain(run)
        if seen:
            lines = [str(rebalance) for report in reports for rebalance in report.rebalances if rebalance.workers]
            assert len(lines) == 1
            assert f"to {workers} workers" in lines[0]
            assert ("the states of" in lines[0]) == (grouping != "D_CHOICES")
        results.append(published(connection, run, "settled"))
        assert {key: n for (_, key), (n, _) in results[-1].items()}.items() <= Counter(keys[:stop]).items()
        assert PlanStateLog(run.checkpoint).newest() is None or PlanStateLog(run.checkpoint).newest().workers == workers
        assert reports[-1].totals.routed == stop
        seen = stop
    rows = States(spark, run.checkpoint).rows().collect()
    assert sorted(row["key"] for row in rows) == sorted(set(keys))
    assert {row["number"] for row in rows} <= set(range(4 if grouping == "D_CHOICES" else 2))
    latest = results[0] | results[1] | results[2]
    offsets = defaultdict(list)
    for i, key in enumerate(keys):
        offsets[None, key].append(i // 2)
    assert latest == {state: (len(of), sum(of)) for state, of in offsets.items()}
