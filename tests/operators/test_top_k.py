"""TOP_K against a counter, and its bounds."""

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.operators.driver import Batch, Engine, Tuple, by_key, parts, streams, whole
from unskew.operators import Now, TopK

COLUMNS = {"item": pa.string()}
ITEMS = st.none() | st.sampled_from("pqrstuvw")


def counts(batches):
    return {key: Counter(each.values["item"] for each in tuples) for key, tuples in by_key(batches).items()}


@given(batches=streams(item=ITEMS))
def test_exact_with_enough_counters(batches):
    for run in (whole, parts):
        final = run(TopK("item", k=3, counters=9), COLUMNS, batches).final()
        expected = {}
        for key, count in counts(batches).items():
            # Equal counts by item, null last.
            best = sorted(count.items(), key=lambda pair: (-pair[1], pair[0] is None, pair[0] or ""))[:3]
            for rank, (item, n) in enumerate(best, start=1):
                expected[key, rank] = {"rank": rank, "item": item, "count": n, "error": 0}
        assert final == expected


@given(batches=streams(item=ITEMS), counters=st.integers(2, 7))
def test_bounds(batches, counters):
    true = counts(batches)
    for run in (whole, parts):
        for (key, _), row in run(TopK("item", k=2, counters=counters), COLUMNS, batches).final().items():
            if row["item"] is None and not row["count"]:
                continue  # an empty rank
            count = true[key][row["item"]]
            assert row["count"] <= count <= row["count"] + row["error"]
            assert row["error"] * (counters + 1) <= true[key].total()


@given(batches=streams(item=ITEMS), counters=st.integers(1, 4))
def test_no_frequent_item_is_missed(batches, counters):
    true = counts(batches)
    final = parts(TopK("item", k=counters, counters=counters, when="end"), COLUMNS, batches).final()
    for key, count in true.items():
        published = {row["item"] for (of, _), row in final.items() if of == key}
        assert published >= {item for item, n in count.items() if n > count.total() / (counters + 1)}


def test_an_empty_rank_is_overwritten():
    engine = Engine(TopK("item", k=2, counters=2), COLUMNS)
    for items in ("pq", "r"):
        engine.batch(Batch([Tuple("a", 0, 0, {"item": item}) for item in items], Now(0, 0)))
    empty = {"item": None, "count": 0, "error": 0}
    assert engine.final() == {("a", 1): {"rank": 1, **empty}, ("a", 2): {"rank": 2, **empty}}


def test_what_agrees():
    """The check of bounds notices a wrong count, a wrong total and an error beyond the bound."""
    work = TopK("item", k=1, counters=3)

    def state(total, error, **items):
        rows = [{"item": item, "count": count} for item, count in items.items()]
        return pa.RecordBatch.from_pylist([{"total": total, "error": error, "items": rows}], schema=work.state)

    assert work.equivalent(state(8, 2, p=3), state(8, 1, p=4, q=2))
    assert not work.equivalent(state(8, 1, p=3), state(8, 1, p=5))
    assert not work.equivalent(state(8, 2, p=3), state(9, 2, p=3))
    assert not work.equivalent(state(8, 1, p=3), state(8, 1, p=3, q=2))
    assert not work.equivalent(state(8, 3, p=3), state(8, 3, p=3))
