"""LATEST and ENRICHED against a walk over the tuples."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operators.driver import Batch, Engine, Tuple, by_key, parts, streams, whole
from unskew.operators import Enriched, Latest, Now

COLUMNS = {"value": pa.string(), "offset": pa.int64(), "id": pa.string()}
VALUES = st.none() | st.sampled_from("xyz")
VERSIONS = st.none() | st.integers(-3, 3)


def rank(each, version):
    """The order of tuples by time, version and value: the greatest is the latest."""
    value = each.values["value"]
    return each.time, (each.values.get(version) or 0) if version else 0, value is not None, value or ""


@pytest.mark.parametrize("version", ["", "offset"])
@given(batches=streams(value=VALUES, offset=VERSIONS))
def test_the_latest(batches, version):
    work = Latest("value", version)
    expected = {}
    for key, tuples in by_key(batches).items():
        latest = max(tuples, key=lambda each: rank(each, version))
        expected[(key,)] = {"value": latest.values["value"], "time": latest.time}
    assert whole(work, COLUMNS, batches).final() == parts(work, COLUMNS, batches).final() == expected


def test_only_changes_are_published():
    engine = Engine(Latest(), COLUMNS)
    for time, value in ((5, "x"), (4, "y"), (5, "x"), (6, "x")):
        engine.batch(Batch([Tuple("a", time, 0, {"value": value})], Now(0, 0)))
    assert engine.published == [("a", {"value": "x", "time": 5}), ("a", {"value": "x", "time": 6})]


def plain_join(batches, version):
    """(Key, id, time, value) of each question; batch by batch."""
    state, published = {}, []
    for batch in batches:
        new = {}
        for each in batch.tuples:
            if each.values["value"] is not None:
                new.setdefault(each.key, []).append((rank(each, version), each.values["value"]))
        for each in batch.tuples:
            if each.values["value"] is None:
                past = [change for change in new.get(each.key, []) if change[0][0] <= each.time]
                past += [state[each.key]] if each.key in state else []
                published.append((each.key, each.values["id"], each.time, max(past)[1] if past else None))
        for key, changes in new.items():
            state[key] = max(changes + ([state[key]] if key in state else []))
    return published


@pytest.mark.parametrize("version", ["", "offset"])
@given(batches=streams(value=VALUES, offset=VERSIONS, id=st.sampled_from("12")))
def test_questions_get_the_value_of_their_time(batches, version):
    engine = whole(Enriched("value", "id", version), COLUMNS, batches)
    published = [(key, row["id"], row["time"], row["value"]) for key, row in engine.published]
    assert sorted(published, key=str) == sorted(plain_join(batches, version), key=str)
