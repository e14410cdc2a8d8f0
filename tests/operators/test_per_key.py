"""The plain per-key form: a work of functions, beside the vectorised one that does the same."""

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operators.driver import Batch, Tuple, by_key, parts, streams, whole
from unskew.operators import Now, PerKey

STATE = pa.schema([("n", pa.int64()), ("words", pa.list_(pa.string()))])
RESULTS = pa.schema([("n", pa.int64()), ("words", pa.list_(pa.string()))])
COLUMNS = {"word": pa.string()}


def update(key, tuples, state):
    assert {each["key"] for each in tuples} == {key}
    assert [each["time"] for each in tuples] == sorted(each["time"] for each in tuples)
    words = sorted({each["word"] for each in tuples} | set(state["words"] if state else []))
    new = {"n": len(tuples) + (state["n"] if state else 0), "words": words}
    return [], new


def merge(states):
    return {"n": sum(s["n"] for s in states), "words": sorted({word for s in states for word in s["words"]})}


def settle(before, after):
    assert before is None or before["n"] < after["n"]
    return [after], after


@given(batches=streams(word=st.sampled_from("xyz")))
def test_functions_of_a_key(batches):
    work = PerKey(update, state=STATE, results=RESULTS, merge=merge, on_merge=settle, columns=("word",))
    expected = {
        (key,): {"n": len(tuples), "words": sorted({each.values["word"] for each in tuples})}
        for key, tuples in by_key(batches).items()
    }
    assert work.mergeable
    assert whole(work, COLUMNS, batches).final() == parts(work, COLUMNS, batches).final() == expected


@given(batches=streams())
def test_results_of_update_and_of_finish(batches):
    def count(key, tuples, state):
        n = (state["n"] if state else 0) + len(tuples)
        return [{"n": n, "last": False}], {"n": n}

    work = PerKey(
        count,
        state=pa.schema([("n", pa.int64())]),
        results=pa.schema([("n", pa.int64()), ("last", pa.bool_())]),
        on_close=lambda state: [{"n": state["n"], "last": True}],
        ttl=0.02,
    )
    assert not work.mergeable
    assert work.ttl_ms == 20
    published = whole(work, {}, batches).published
    last = Counter()
    for key, row in published:
        if row["last"]:
            last[key] += row["n"]
    assert last == Counter(each.key for batch in batches for each in batch.tuples)


BATCH = [Batch([Tuple("a", 0, 0, {"word": "x"})], Now(0, 0))]


@pytest.mark.parametrize(
    ("gives", "message"),
    [
        (([], {"n": "many"}), "'n' of a state isn't int64"),
        (([], {"m": 1}), "a state is {'m': 1}; valid: a mapping with n, words"),
        (([], None), "a state is None; valid: a mapping with n, words"),
        (([{"k": 1}], {"n": 1}), "a result is {'k': 1}; valid: a mapping with n, words"),
        (([7], {"n": 1}), "a result is 7; valid: a mapping with n, words"),
        (({"n": 1}, {"n": 1}), "a result is 'n'; valid: a mapping with n, words"),
        (([{"n": 1, "slot": 5}], {"n": 1}), "a result is {'n': 1, 'slot': 5}; valid: a mapping with n, words"),
    ],
)
def test_what_does_not_fit_the_schema(gives, message):
    work = PerKey(lambda key, tuples, state: gives, state=STATE, results=RESULTS, columns=("word",))
    with pytest.raises(ValueError) as raised:
        whole(work, COLUMNS, BATCH)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)
