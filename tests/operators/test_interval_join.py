"""INTERVAL_JOIN against all pairs of the tuples, each compared with each."""

from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from tests.apps.stateful.driver import Driver
from unskew import UsageError
from unskew.apps.worker.stateful.config import KeyedOperatorConfig
from unskew.operators import IntervalJoin

BEFORE, AFTER, LATENESS, BATCHES = 40, 25, 30, 8


def make_batches(rng: np.random.Generator):
    """Batches of tuples whose times are up to ``LATENESS`` out of order, a few of them null in ``player``."""
    for number in range(BATCHES):
        n = int(rng.integers(0, 60))
        time = 1_000 + 50 * number + rng.integers(-LATENESS, 50, n)
        player = [None if each == 3 else int(each) for each in rng.integers(0, 4, n)]
        keys = pa.array([f"k{key}" for key in rng.integers(0, 3, n)], pa.string()).dictionary_encode()
        yield pa.record_batch(
            {
                "key": keys,
                "time": pa.array(time, pa.timestamp("ms", "UTC")),
                "id": rng.permutation(n) + 100 * number,
                "right": pa.array(rng.random(n) < 0.4, pa.bool_()),
                "player": pa.array(player, pa.int64()),
                "price": rng.normal(size=n),
            }
        )


def run(work: IntervalJoin, batches) -> list[tuple]:
    """What is published: (key, the columns). The watermark is the least time that the next batch may have."""
    config = KeyedOperatorConfig(work, pa.string(), 2, split=False, event=True, ttl_ms=work.ttl_ms)
    driver = Driver(config, "KEY")
    for number, batch in enumerate(batches):
        driver.batch([batch], 1_000 + 50 * number, 1_050 + 50 * number - LATENESS)
    driver.move(10_000)
    return sorted((row[1:] for row in driver.results), key=repr)


def match(batches, before, after, *, own: bool, how: str) -> list[tuple]:
    """The pairs by their definition, and the tuples without one."""
    rows = [row | {"time": int(row["time"].timestamp() * 1000 + 0.5)} for batch in batches for row in batch.to_pylist()]
    found, with_partner = [], set()
    for a, b in product(rows, rows):
        if a["key"] != b["key"] or a["player"] != b["player"] or a["player"] is None or a["price"] + b["price"] < 0:
            continue
        apart = b["time"] - a["time"]
        if own:
            pairs = 0 <= apart <= before and (apart > 0 or a["id"] < b["id"])
        else:
            pairs = not a["right"] and b["right"] and -before <= apart <= after
        if pairs:
            with_partner |= {a["id"], b["id"]}
            found.append((a["key"], a["id"], a["time"], b["id"], b["time"], a["price"]))
    for row in rows:
        if row["id"] not in with_partner and how in ("full", "right" if row["right"] else "left"):
            none, mine = (None, None), (row["id"], row["time"])
            of = (*none, *mine, None) if row["right"] else (*mine, *none, row["price"])
            found.append((row["key"], *of))
    return sorted(found, key=repr)


def both_gain(left: pa.RecordBatch, right: pa.RecordBatch) -> pa.Array:
    return pa.array(left.column("price").to_numpy() + right.column("price").to_numpy() >= 0)


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
def test_all_pairs_of_two_streams(how, seed):
    for more in range(8):
        batches = list(make_batches(np.random.default_rng(seed + more)))
        work = IntervalJoin(
            BEFORE / 1000, AFTER / 1000, "price double", "price double", side="right", equal="player int64",
            where=both_gain, how=how,
        )  # fmt: skip
        found = [row[:-1] for row in run(work, batches)]  # without the right price
        assert found == match(batches, BEFORE, AFTER, own=False, how=how)


def test_all_pairs_of_one_stream(seed):
    for more in range(8):
        batches = list(make_batches(np.random.default_rng(seed + more)))
        work = IntervalJoin(
            BEFORE / 1000, left="price double", right="price double", equal="player int64", where=both_gain
        )
        assert [row[:-1] for row in run(work, batches)] == match(batches, BEFORE, 0, own=True, how="inner")


def test_a_state_has_only_what_can_still_meet_something():
    work = IntervalJoin(BEFORE / 1000)
    config = KeyedOperatorConfig(work, pa.string(), 1, split=False, event=True, ttl_ms=work.ttl_ms)
    driver = Driver(config, "KEY")
    for number in range(50):
        batch = {"key": pa.array(["k"]).dictionary_encode(), "time": pa.array([50 * number], pa.timestamp("ms", "UTC"))}
        driver.batch([pa.record_batch(batch | {"id": [number]})], 50 * number, 50 * number)
    assert sum(map(len, driver.workers[0].blobs.values())) < 3_000


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"how": "left"}, "how='left' is given for a self-join; valid: with a side"),
        ({"after": 1.0}, "after is given for a self-join"),
        ({"how": "outer", "side": "r"}, "how is 'outer'; valid: inner, left, right, full"),
        ({"left": "price"}, "column 'price' is no name with a type"),
        ({"left": "price money"}, "column 'price money' is no name with a type"),
        ({"left": "a int64", "right": "a string"}, "column 'a' has two types"),
        ({"kind": "double"}, "kind is 'double'"),
        ({"within": "soon"}, "within is 'soon'"),
    ],
)
def test_what_does_not_fit_is_refused(given, says):
    with pytest.raises((UsageError, ValueError), match=says):
        IntervalJoin(**given)
