from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from producers.keycounts import KeyCounts

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


def test_waiting_counts_are_merged_before_they_grow():
    counts = KeyCounts()
    counts._pending_rows = 10
    for number in range(1000):
        counts.add(pa.array([f"k{number % 7}", f"k{number % 3}"]))
        assert counts._waiting <= 10 + 2
    assert counts.distinct == 7
    assert sum(counts.tuples().values()) == 2000


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
