from collections import Counter

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
    assert counts.to_dict() == expected
    assert counts.total == sum(expected.values())
    assert counts.top(3) == sorted(expected.items(), key=lambda item: (-item[1], item[0]))[:3]


def test_waiting_counts_are_merged_before_they_grow():
    counts = KeyCounts()
    counts._pending_rows = 10
    for number in range(1000):
        counts.add(pa.array([f"k{number % 7}", f"k{number % 3}"]))
        assert counts._waiting <= 10 + 2
    assert counts.distinct == 7
    assert sum(counts.to_dict().values()) == 2000
