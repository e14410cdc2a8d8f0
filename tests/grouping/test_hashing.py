"""The hash family equals its plain version, and its functions are as good as independent."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.grouping import plain_hashing as plain
from unskew.grouping.hashing import choose_homes, draw_candidates, hash_function, mix_hash

hashes = st.integers(0, 2**64 - 1)
functions = st.builds(hash_function, st.integers(-(2**40), 2**40), st.integers(0, 2**31))


@given(hashes, functions)
def test_mix(key, number):
    assert int(mix_hash(np.uint64(key), number)) == plain.mix(key, int(number))


@given(st.integers(0, 2**31), st.integers(0, 2**31))
def test_function(seed, index):
    assert int(hash_function(seed, index)) == plain.function(seed, index)


@given(st.lists(st.text(max_size=8), max_size=5), st.integers(1, 40), st.integers(1, 40), st.integers(0, 99))
def test_candidates(keys, workers, count, seed):
    count = min(count, workers)
    hashes = np.array([plain.key_hash(key) for key in keys], np.uint64)
    drawn = draw_candidates(hashes, hash_function(seed), count, workers)
    assert drawn.tolist() == [plain.draw(key, count, workers, seed) for key in keys]
    assert all(len(set(row)) == count for row in drawn.tolist())
    assert drawn[:, 0].tolist() == choose_homes(hashes, hash_function(seed), workers).tolist()


@pytest.mark.parametrize("count", [2, 3])
def test_choices_are_equally_likely(count):
    """All 20 ordered pairs of 5 workers, all 60 triples: within 5 standard deviations."""
    n = 100_000
    drawn = draw_candidates(np.arange(n, dtype=np.uint64), hash_function(0), count, 5)
    counts = np.unique(drawn, axis=0, return_counts=True)[1]
    assert len(counts) == {2: 20, 3: 60}[count]
    p = 1 / len(counts)
    assert np.abs(counts - n * p).max() < 5 * np.sqrt(n * p * (1 - p))
