"""A topology whose workers remember, against a real broker: its results and its counts are exact."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from pyspark import cloudpickle

from tests.apps.conftest import by_key, countries, final_counts, publish, records
from tests.apps.keyed import driver
from tests.apps.keyed.driver import Tally
from unskew.apps.topology.publisher import result_topics

pytestmark = [pytest.mark.spark, pytest.mark.kafka]
cloudpickle.register_pickle_by_value(driver)  # the tasks can't import the tests

START = 1_700_000_000_000


def skewed(n: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [
        "Turkey" if hot else f"Country {i}" for hot, i in zip(rng.random(n) < 0.8, rng.integers(0, 50, n), strict=True)
    ]


def told(connection, run, kind):
    """(window or None, key) → n and total: the last that a ``Tally`` has told of that kind."""
    latest = dict(records(connection, result_topics(run)["results"]))
    return {
        (value["tags"].get("window"), value["key"]): (value["fields"]["n"], value["fields"]["total"])
        for value in latest.values()
        if value["fields"]["kind"] == kind
    }


class Told(Tally):
    """Settled and finished results lie side by side."""

    identity = ("kind",)


@pytest.mark.parametrize(
    ("grouping", "more"),
    [
        ("KEY", {}),
        ("D_CHOICES", {"merge_every": "2 batches"}),
        pytest.param("PARTIAL_KEY", {}, marks=pytest.mark.slow),
    ],
)
def test_windows_by_event_time(grouping, more, settings, drain, connection, topic):
    keys = skewed(3_000)
    ms = [START + 7 * i for i in range(len(keys))]  # 21 s, in order
    publish(connection, topic, 2, countries(keys), ms=ms)
    work = Told("offset")
    run = settings(grouping, time="event", window=5.0, lateness=1.0, max_tuples=1_000, work=work, **more)
    _, reports = drain(run)
    truth = defaultdict(list)
    for i, (t, key) in enumerate(zip(ms, keys, strict=True)):
        truth[str(np.datetime64(t // 5000 * 5000, "ms")) + "Z", key].append(i // 2)
    expected = {place: (len(offsets), sum(offsets)) for place, offsets in truth.items()}
    assert told(connection, run, "finished") == expected
    assert told(connection, run, "settled") == expected
    counts = final_counts(connection, result_topics(run)["aggregator"])
    assert counts == {place: n for place, (n, _) in expected.items()}
    assert reports[-1].totals.tuples == len(keys)
    assert (reports[-1].totals.late, reports[-1].held.states.sum()) == (0, 0)


@pytest.mark.parametrize(("grouping", "more"), [("KEY", {}), ("W_CHOICES", {"merge_every": "0.5s"})])
def test_states_that_outlive_windows_and_restarts(grouping, more, settings, drain, connection, topic):
    keys = skewed(2_000)
    run = settings(grouping, ttl=3600.0, max_tuples=700, work=Told("offset"), **more)
    for part in (keys[:1_200], keys[1_200:]):
        publish(connection, topic, 2, countries(part))
        _, reports = drain(run)
    found = told(connection, run, "settled")
    assert {key: n for (_, key), (n, _) in found.items()} == Counter(keys)
    assert by_key(final_counts(connection, result_topics(run)["aggregator"])) == Counter(keys)
    assert reports[-1].held.states.sum() == len(set(keys))
