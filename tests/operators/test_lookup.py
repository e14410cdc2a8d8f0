"""Lookups at workers without Spark: what is asked for, what is remembered, and what a lookup may answer."""

import numpy as np
import pyarrow as pa
import pytest

from tests.apps.stateful.driver import Engine, packets_of
from unskew.apps.operators.errors import StateFault
from unskew.apps.operators.lookup import Lookup
from unskew.apps.worker.stateful.config import KeyedOperatorConfig, splits_keys
from unskew.apps.worker.stateful.table import StateTable
from unskew.grouping import create

WORKERS = 4
CARRIED = pa.schema([("c0", pa.int64())])
FOUND = pa.schema([("v0", pa.string())])


class Names:
    """A lookup that knows the names of keys without a 0. It notes what it is asked for."""

    def __init__(self):
        self.asked, self.broken = [], 0

    def __call__(self, keys):
        self.asked.append(keys.to_pylist())
        if self.broken:
            self.broken -= 1
            raise ConnectionError("no route to the database")
        known = [key for key in keys.to_pylist() if "0" not in key]
        return pa.record_batch({"key": known, "v0": pa.array([f"name of {key}" for key in known], pa.string())})


def make_engine(fetch, workers=WORKERS, **options) -> Engine:
    work = Lookup(fetch, CARRIED, FOUND, ttl_ms=10_000, missing_ttl_ms=2_000, **options)
    return Engine(KeyedOperatorConfig(work, pa.string(), workers, split=False, ttl_ms=work.ttl_ms))


def run(engine: Engine, router, keys, at_ms: int, first: int = 0) -> dict[int, tuple[str, str]]:
    """The rows of a batch: number → (key, what is known of it)."""
    rows = pa.record_batch({"key": pa.array(keys).dictionary_encode(), "c0": np.arange(first, first + len(keys))})
    engine.results.clear()
    engine.run(packets_of(rows, router.route(keys, at_ms), engine.config.workers), at_ms, at_ms)
    return {number: (key, value) for _, key, number, value in engine.results}


@pytest.mark.parametrize("grouping", ["KEY", "PLANNED", "SHUFFLE"])
def test_every_row_gets_what_its_key_has_and_no_worker_asks_twice(grouping, seed):
    names = Names()
    engine, router = make_engine(names), create(grouping, WORKERS)
    rng, wanted = np.random.default_rng(seed), {}
    for batch in range(5):
        keys = [f"k{key}" for key in np.where(rng.random(500) < 0.5, 7, rng.integers(0, 60, 500))]
        found = run(engine, router, keys, 1_000 * batch, 500 * batch)
        wanted = {500 * batch + i: (key, None if "0" in key else f"name of {key}") for i, key in enumerate(keys)}
        assert found == wanted
    held = [StateTable(each, 0, engine.config.work.state, pa.string(), 10_000).keys for each in engine.workers]
    known = [key for asked in names.asked for key in asked if "0" not in key]
    assert len(known) <= sum(held), "what a worker knows it doesn't ask for again"
    if grouping != "SHUFFLE":
        assert sum(held) <= 1.05 * 60 + WORKERS, "a key is at few workers"


def test_what_is_known_grows_old_and_what_there_is_not_sooner():
    names = Names()
    engine, router = make_engine(names, 1), create("KEY", 1)
    for second in range(0, 25, 1):
        run(engine, router, ["k1", "k0"], 1_000 * second)
    asked = [key for each in names.asked for key in each]
    assert (asked.count("k1"), asked.count("k0")) == (3, 13)


def test_an_inner_lookup_leaves_out_rows_without_a_match():
    engine, router = make_engine(Names(), how="inner"), create("SHUFFLE", WORKERS)
    found = run(engine, router, ["k1", "k0", "k2", "k1"], 0)
    assert found == {0: ("k1", "name of k1"), 2: ("k2", "name of k2"), 3: ("k1", "name of k1")}


def test_nobody_asks_for_null():
    names = Names()
    engine, router = make_engine(names, 1), create("KEY", 1)
    assert run(engine, router, [None, "k1", None], 0) == {0: (None, None), 1: ("k1", "name of k1"), 2: (None, None)}
    assert names.asked == [["k1"]]


def test_a_lookup_that_fails_is_tried_again_and_then_ends_the_query(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)
    names = Names()
    engine, router = make_engine(names, 1, retries=2), create("KEY", 1)
    names.broken = 2
    assert run(engine, router, ["k1"], 0) == {0: ("k1", "name of k1")}
    names.broken = 9
    with pytest.raises(StateFault, match=r"key 'k2' and 1 others failed \(.*test_lookup.*no route"):
        run(engine, router, ["k2", "k3"], 0)
    assert len(names.asked) == 6, "it isn't called once more for each half of the keys"


def test_an_ignored_failure_gives_what_is_known_from_before(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)
    names = Names()
    engine, router = make_engine(names, 1, retries=0, on_error="ignore"), create("KEY", 1)
    for second in (0, 9):
        run(engine, router, ["k1"], 1_000 * second)
    names.broken = 1
    assert run(engine, router, ["k1", "k2"], 11_000) == {0: ("k1", "name of k1"), 1: ("k2", None)}
    assert run(engine, router, ["k1", "k2"], 12_000)[1] == ("k2", "name of k2"), "it is asked for in the next batch"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (None, "gives NoneType; valid: RecordBatch, Table"),
        ({"key": ["k1"]}, "no column 'v0'.*valid: key, v0"),
        ({"key": ["k1", "k1"], "v0": ["a", "b"]}, "answers twice for key 'k1'"),
        ({"key": ["K1"], "v0": ["a"]}, "answers for key 'K1', which nobody has asked for"),
        ({"key": ["k1"], "v0": [[1]]}, "column 'v0' as list.*valid: string"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(answer, says):
    engine, router = make_engine(lambda _: answer and pa.table(answer), 1), create("KEY", 1)
    with pytest.raises(StateFault, match=says):
        run(engine, router, ["k1"], 0)


def test_states_of_their_own_need_no_merge():
    work = make_engine(Names()).config.work
    assert not work.mergeable
    assert not splits_keys(work, "SHUFFLE", WORKERS)
