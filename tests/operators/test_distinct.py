"""DISTINCT against a set."""

from collections import Counter
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operators.driver import Batch, Engine, Tuple, parts, streams, tuples_of, whole
from unskew.operators import Distinct, Now

IDS = {
    "string": st.sampled_from(["x", "y", "z", ""]),
    "int64": st.integers(0, 3),
    "binary": st.sampled_from([b"x", b"\xff"]),
}
TYPES = {"string": pa.string(), "int64": pa.int64(), "binary": pa.binary()}


@pytest.mark.parametrize("kind", list(IDS))
@given(data=st.data())
def test_each_id_once(data, kind):
    batches = data.draw(streams(id=st.none() | IDS[kind]))
    work, columns = Distinct("id", kind), {"id": TYPES[kind]}
    first = {}
    for each in tuples_of(batches):
        address = each.key, each.values["id"]
        first[address] = min(each.time, first.get(address, each.time))
    for run in (whole, parts):
        published = [(key, row["id"]) for key, row in run(work, columns, batches).published]
        assert Counter(published) == Counter(list(first))
    # All in one batch: the time published is the first there is.
    together = [Batch(tuples_of(batches), Now(0, 0), merged=True)]
    for run in (whole, parts):
        published = {(key, row["id"]): row["time"] for key, row in run(work, columns, together).published}
        assert published == first


@given(batches=streams(id=IDS["int64"]), within=st.integers(1, 50))
def test_an_id_is_published_again_only_when_it_was_long_ago(batches, within):
    work = Distinct("id", "int64", within / 1000)
    for run in (whole, parts):
        published = {}
        for key, row in run(work, {"id": pa.int64()}, batches).published:
            published.setdefault((key, row["id"]), []).append(row["time"])
        assert published.keys() == {(each.key, each.values["id"]) for each in tuples_of(batches)}
        for times in published.values():
            assert all(after - before >= within for before, after in pairwise(times))


def test_an_older_tuple_makes_nobody_forget_sooner():
    def stream():
        for time, watermark in ((10, 0), (5, 14), (14, 14)):
            yield Batch([Tuple("a", time, 0, {"id": 1})], Now(0, watermark), merged=True)

    for run in (whole, parts):
        published = run(Distinct("id", "int64", within=0.005), {"id": pa.int64()}, list(stream())).published
        assert published == [("a", {"id": 1, "time": 10})]


def test_old_ids_are_forgotten():
    engine = Engine(Distinct("id", "int64", within=0.010), {"id": pa.int64()})
    engine.batch(Batch([Tuple("a", 100, 0, {"id": 1})], Now(0, 105)))
    engine.batch(Batch([Tuple("a", 112, 0, {"id": 2})], Now(0, 112)))
    assert [each["id"] for each in engine.states["a"]["ids"]] == [2]
