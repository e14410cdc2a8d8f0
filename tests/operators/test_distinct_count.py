"""DISTINCT_COUNT against registers in a dict, and against the truth."""

import math

import mmh3
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operators.driver import Batch, Tuple, by_key, parts, streams, whole
from unskew.operators import DistinctCount, Now

COLUMNS = {"id": pa.string()}


def plain(ids, bits):
    """The registers of a key: number → value."""
    registers = {}
    for each in ids:
        hashed = f"{mmh3.hash64(each, signed=False)[0]:064b}"
        number, rest = int(hashed[:bits], 2), hashed[bits:]
        value = len(rest) - len(rest.lstrip("0")) + 1
        registers[number] = max(value, registers.get(number, 0))
    return registers


@given(batches=streams(id=st.text(max_size=3)), bits=st.integers(4, 16))
def test_registers(batches, bits):
    work = DistinctCount("id", bits)
    one, split = whole(work, COLUMNS, batches), parts(work, COLUMNS, batches)
    assert one.final() == split.final()
    merged = [Batch([each for batch in batches for each in batch.tuples], Now(0, 0))]
    engine = type(one)(work, COLUMNS)
    engine.batch(merged[0])
    for key, tuples in by_key(batches).items():
        packed = engine.states[key]["registers"]
        assert {each >> 6: (each & 63) + 1 for each in packed} == plain([each.values["id"] for each in tuples], bits)


@pytest.mark.parametrize("count", [0, 1, 10, 1000, 30_000, 200_000])
def test_error(count):
    """Within five standard errors, of 40 keys whose ids differ."""
    keys, bits = 40, 8
    work = DistinctCount("id", bits)
    ids = np.arange(keys * count).reshape(keys, count)
    states = pa.RecordBatch.from_pylist([{"registers": []}] * keys, schema=work.state)
    for mine in np.array_split(ids, 10, axis=1):
        slots = pa.array(np.repeat(np.arange(keys, dtype=np.int32), mine.shape[1]))
        tuples = pa.RecordBatch.from_pydict({"slot": slots, "id": mine.ravel()})
        states = work.update(tuples, states, Now(0, 0))[1]
    estimates = work.result(states).column("count").to_numpy()
    deviations = (estimates - count) / max(count, 1)
    error = 1.04 / math.sqrt(2**bits)
    assert np.abs(deviations).max() < 5 * error
    assert abs(deviations.mean()) < 5 * error / math.sqrt(keys)


def test_ids_of_any_kind():
    for ids, kind in (([1, 2, 2], pa.int32()), ([b"1", b"2", None], pa.binary()), (["1", "2", "2"], pa.string())):
        batch = Batch([Tuple("a", 0, 0, {"id": each}) for each in ids], Now(0, 0))
        count = whole(DistinctCount(), {"id": kind}, [batch]).final()[("a",)]["count"]
        assert round(count) == len(set(ids))
