from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.producers.key_counts import KeyCounts, KmvSketch

texts = st.lists(st.sampled_from(["a", "b", "ü", "", "zz", "日本"]), max_size=30)


@given(st.lists(st.tuples(texts, st.booleans()), max_size=6))
def test_counts_are_exact_however_the_keys_come(blocks):
    counts, expected = KeyCounts(), Counter()
    for keys, coded in blocks:
        array = pa.array(keys, pa.string())
        counts.add(array.dictionary_encode() if coded else array)
        expected.update(keys)
        assert counts.distinct == len(expected)
    assert counts.tuples() == counts.sums() == expected
    assert counts.total == sum(expected.values())
    assert counts.top(3) == sorted(expected.items(), key=lambda item: (-item[1], item[0]))[:3]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2**40)), max_size=30))
def test_what_the_messages_count_is_summed(rows):
    counts, expected = KeyCounts(), Counter()
    for at in range(0, len(rows), 7):
        part = rows[at : at + 7]
        counts.add(pa.array([key for key, _ in part], pa.string()), np.array([n for _, n in part], np.int64))
    for key, n in rows:
        expected[key] += n
    assert counts.sums() == expected
    assert counts.tuples() == Counter(key for key, _ in rows)


def test_it_grows_with_the_keys():
    counts = KeyCounts()
    for start in range(0, 50_000, 5000):
        counts.add(pa.array([f"k{number}" for number in range(start, start + 6000)]))
    assert counts.distinct == 51_000
    assert Counter(counts.tuples().values()) == {1: 51_000 - 9000, 2: 9000}
    assert counts.error == 0


def test_a_dictionary_may_hold_a_key_twice_or_in_vain():
    counts = KeyCounts()
    for _ in range(2):
        counts.add(pa.DictionaryArray.from_arrays(pa.array([2, 3, 2, 0], pa.int32()), pa.array(["x", "y", "z", "z"])))
    assert counts.tuples() == {"z": 6, "x": 2}
    assert counts.distinct == 2
    assert counts.top(9) == [("z", 6), ("x", 2)]


@given(st.lists(st.lists(st.integers(0, 60), max_size=40), max_size=12), st.integers(2, 40))
def test_with_too_many_keys_the_error_is_bounded(blocks, capacity):
    counts, expected = KeyCounts(capacity), Counter()
    for block in blocks:
        counts.add(pa.array([str(key) for key in block], pa.string()))
        expected.update(str(key) for key in block)
    assert counts.total == sum(expected.values())
    assert counts.distinct == len(expected)  # few enough to be known exactly
    for key, tuples in counts.top(capacity):
        assert expected[key] - counts.error <= tuples <= expected[key]
    known = dict(counts.top(capacity))
    assert all(n <= counts.error for key, n in expected.items() if key not in known)
    if counts.error:
        with pytest.raises(ValueError, match="only the most frequent"):
            counts.tuples()


def test_hot_keys_stay_right_in_bounded_memory():
    counts, expected = KeyCounts(2000), Counter()
    rng = np.random.default_rng(5)
    for _ in range(40):
        keys = np.minimum(rng.zipf(1.3, 5000), 10**9)
        counts.add(pa.array(keys.astype(str)))
        expected.update(keys.astype(str).tolist())
    assert len(counts._hashes) <= 2000
    assert [key for key, _ in counts.top(10)] == [key for key, _ in expected.most_common(10)]
    assert counts.error < 0.002 * counts.total
    assert counts.distinct == pytest.approx(len(expected), rel=0.05)


@pytest.mark.parametrize("keys", [10, 1000, 16_384, 200_000, 2_000_000])
def test_the_distinct_estimate_is_within_five_standard_errors(keys):
    rng = np.random.default_rng(keys)
    hashes = rng.integers(0, 2**64, keys, dtype=np.uint64)
    distinct = KmvSketch()
    for part in np.array_split(np.concatenate([hashes, hashes[: keys // 2]]), 7):
        distinct.add(part)
    assert distinct.estimate() == pytest.approx(keys, rel=0 if keys < 16_384 else 5 / 128)
