"""Real kills of a topology with a keyed operator: whatever dies and when, each result is published, and only once."""

import random
from collections import Counter

import pytest

from tests.apps.conftest import records
from tests.apps.faults.harms import broker, connection, everything, harm_in_batches, python_workers, the_broker, the_jvm  # noqa: F401
from tests.apps.stateful.sessions import ALWAYS, SESSIONS, read_sessions, sessions_of
from tests.harness.topology import START, WINDOW_MS, check, launch, stream, truth  # noqa: F401  fixtures
from unskew.apps.checkpoint.plan_states import PlanStateLog
from unskew.kafka.topics import end_offsets

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(2400)]
NIGHTLY = pytest.mark.nightly(group="kills")

DISTINCT = ["--work", "unskew.operators:Distinct", "--work-option", "id=offset", "--work-option", "kind=int64"]

ONCE = [everything, python_workers]
#: Of each nightly one: 36 kills in the first three.
HARMS = [everything, the_jvm, *[python_workers] * 7, *[the_broker] * 3]


def ids_of(stream):
    """(window, key, offset) of each id: the two partitions have the same offsets."""
    return {(START + (ms - START) // WINDOW_MS * WINDOW_MS, key, offset) for key, ms, offset in stream}


@pytest.mark.parametrize(
    ("turn", "grouping", "short", "harms", "most"),
    [
        pytest.param(2, "MIXED", "mixed", ONCE, 1_600, id="once", marks=pytest.mark.takes(40)),
        *(
            pytest.param(turn, *each, HARMS, 550, id=each[0], marks=[NIGHTLY, pytest.mark.takes(150)])
            for turn, each in enumerate([("D_CHOICES", "dc"), ("KEY", "kg"), ("MIXED", "mixed"), ("PLANNED", "pl")])
        ),
    ],
)
def test_whatever_is_killed(broker, connection, topic, truth, launch, turn, grouping, short, harms, most, seed):
    """In any order, by either work."""
    work = [SESSIONS, DISTINCT][(turn + seed) % 2]  # the first grouping gets one of the works, the next the other
    rng = random.Random(seed)
    harms = rng.sample(harms, len(harms))
    # fragments stay at the workers for a batch, or don't
    merges = rng.choice([[], ["--work-option", "merge_every=2 batches"]])
    more = ALWAYS if grouping == "MIXED" else merges if (turn, work) == (0, SESSIONS) else []
    print(f"{work[1]}, {more}: {', '.join(harm.__name__ for harm in harms)}")
    topology = launch(grouping, "--max-tuples", str(most), "--conf", "spark.sql.shuffle.partitions=3", *work, *more)
    harm_in_batches(topology, broker, harms, rng)
    check(connection, topic, short, truth)
    results = f"{topic}-s2-w4-{short}-results"
    published = records(connection, results)
    latest = dict(published).values()
    if grouping == "MIXED":
        state = PlanStateLog(str(topology.checkpoint)).newest()
        print(f"plan {state.active.number} is active at the end")
        assert state.active.number > 2, "a run in which no keys move would prove nothing"
    print(f"{len(published)} records of {len(latest)} results, {sum(end_offsets(connection, results).values())} in all")
    if work is SESSIONS:
        found, all_of_them = read_sessions(latest), sessions_of(stream())
        assert len(all_of_them) > 100, "a stream without sessions would prove nothing"
        assert set(found.values()) == {1}
        assert set(found) == all_of_them
    else:
        found = Counter((value["tags"]["window"], value["key"], value["fields"]["id"]) for value in latest)
        assert set(found.values()) == {1}
        starts = {window: START + WINDOW_MS * i for i, window in enumerate(sorted({w for w, _, _ in found}))}
        assert {(starts[window], key, id_) for window, key, id_ in found} == ids_of(stream())
