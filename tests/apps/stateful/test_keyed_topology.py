"""A topology with a keyed operator, against a real broker: its results and its counts are exact."""

from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest
from pyspark import cloudpickle

from tests.apps.conftest import count_by_key, count_by_window, countries, publish, records, skewed, true_counts
from tests.apps.stateful import driver
from tests.apps.stateful.driver import TallyOfKinds
from tests.apps.stateful.tallies import published
from tests.harness.topology import START
from tests.tiers import nightly
from unskew.apps.aggregator.publisher import list_result_topics
from unskew.apps.worker.stateful.stage import KeyedStage
from unskew.apps.worker.stateful.state_reader import States
from unskew.operators import Statistics

cloudpickle.register_pickle_by_value(driver)  # the tasks can't import the tests


@pytest.mark.parametrize(
    ("grouping", "more"),
    [
        pytest.param("D_CHOICES", {"merge_every": "2 batches"}, marks=pytest.mark.ci),
        pytest.param("D_CHOICES", {"slide": 2.5}, marks=pytest.mark.ci),
        *nightly("keyed", ("KEY", {}), ("PARTIAL_KEY", {})),
    ],
)
def test_windows_by_event_time(grouping, more, settings, drain, connection, topic):
    keys = skewed(3_000)
    ms = [START + 7 * i for i in range(len(keys))]  # 21 s, in order
    publish(connection, topic, 2, countries(keys), ms=ms)
    work = TallyOfKinds("offset")
    run = settings(grouping, time="event", window=5.0, lateness=1.0, max_tuples=1_000, work=work, **more)
    _, reports = drain(run)
    truth = defaultdict(list)
    slide = run.slide_ms
    for i, (t, key) in enumerate(zip(ms, keys, strict=True)):
        for back in range(0, 5000, slide):
            truth[str(np.datetime64(t // slide * slide - back, "ms")) + "Z", key].append(i // 2)
    expected = {state: (len(offsets), sum(offsets)) for state, offsets in truth.items()}
    assert published(connection, run, "finished") == expected
    assert published(connection, run, "settled") == expected
    assert count_by_window(run) == {state: n for state, (n, _) in expected.items()}
    assert reports[-1].totals.routed == reports[-1].totals.tuples == len(keys)  # of overlapping windows, one each
    assert (reports[-1].totals.late, reports[-1].states.states.sum()) == (0, 0)


@pytest.mark.ci
def test_statistics_of_a_field_by_the_time_in_another(settings, drain, connection, topic):
    keys = skewed(3_000)
    orders = [(key, START + 7 * i, i / 4) for i, key in enumerate(keys)]  # 21 s, in order
    values = [orjson.dumps({"user": {"id": key}, "at": at, "amount": amount}) for key, at, amount in orders]
    publish(connection, topic, 2, [*values, orjson.dumps({"user": {"id": "x"}, "at": START, "amount": "much"})])
    work = Statistics("amount", when="end")
    fields = {"source_type": "COLUMN", "key_field": "user.id", "time_field": "at", "work": work}
    run = settings("D_CHOICES", window=5.0, lateness=1.0, max_tuples=1_000, merge_every="2 batches", **fields)
    _, reports = drain(run)
    truth = defaultdict(list)
    for key, at, amount in orders:
        truth[str(np.datetime64(at // 5000 * 5000, "ms")) + "Z", key].append(amount)
    topics = list_result_topics(run)
    found = {
        (value["tags"]["window"], value["key"]): (value["fields"]["count"], value["fields"]["sum"])
        for value in dict(records(connection, topics["results"])).values()
    }
    assert found == {state: (len(amounts), sum(amounts)) for state, amounts in truth.items()}
    assert (reports[-1].totals.late, reports[-1].totals.rejected) == (0, 1)
    assert [value["reason"] for _, value in records(connection, topics["rejected"])] == [
        "field 'amount' is STRING, not double"
    ]


@pytest.mark.nightly(group="keyed")
@pytest.mark.parametrize(("grouping", "more"), [("KEY", {}), ("W_CHOICES", {"merge_every": "0.5s"})])
def test_states_that_outlive_windows_and_restarts(grouping, more, settings, spark, drain, connection, topic):
    keys = skewed(2_000)
    run = settings(grouping, ttl=3600.0, max_tuples=700, work=TallyOfKinds("offset"), **more)
    for part in (keys[:1_200], keys[1_200:]):
        publish(connection, topic, 2, countries(part))
        _, reports = drain(run)
    found = published(connection, run, "settled")
    assert {key: n for (_, key), (n, _) in found.items()} == Counter(keys)
    assert count_by_key(run) == Counter(keys)
    assert reports[-1].states.states.sum() == len(set(keys))
    states = States(spark, run.checkpoint)
    rows = states.rows().collect()
    assert {row["key"] for row in rows} == set(keys)
    assert {row["operator"] for row in rows} == {"worker" if grouping == "KEY" else "merger"}
    assert {(row["operator"], row["number"]) for row in rows} <= states.directories.keys()
    (turkey,) = states.rows(full=True, key="Turkey").collect()
    assert orjson.loads(turkey["state"]) == dict(zip(("n", "total"), found[None, "Turkey"], strict=True))
    assert turkey["bytes"] == 16


@pytest.mark.nightly(group="keyed")
@pytest.mark.parametrize("grouping", ["KEY", "D_CHOICES"])
def test_results_that_are_too_many_for_spark(grouping, settings, drain, connection, topic, monkeypatch):
    """They arrive all the same, and the files of earlier batches don't stay."""
    config = KeyedStage.config
    monkeypatch.setattr(KeyedStage, "config", lambda self, *given: replace(config(self, *given), most=100))
    keys = skewed(3_000)
    ms = [START + 7 * i for i in range(len(keys))]  # 21 s, in order
    publish(connection, topic, 2, countries(keys), ms=ms)
    run = settings(grouping, time="event", window=5.0, lateness=1.0, max_tuples=1_000, work=TallyOfKinds("offset"))
    drain(run)
    truth = true_counts(keys, ms, 5000)
    assert {state: n for state, (n, _) in published(connection, run, "finished").items()} == truth
    assert count_by_window(run) == truth
    senders = [*Path(run.checkpoint).glob("unskew/overflow/*")]
    assert {sender.name.split("-")[0] for sender in senders} >= {"worker"}
    assert all(len([*sender.iterdir()]) <= 1 for sender in senders), "those of batches before the last"
