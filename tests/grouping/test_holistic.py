"""HOLISTIC equals its authors' code, and does what it says of heavy hitters and their regions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.grouping import plain_hashing as plain
from tests.grouping.skewed import FEW_KEYS
from unskew.grouping import create, encode_keys
from unskew.grouping.streams import hot, uniform


class PlainHolistic:
    """As the authors' ``HolisticPartitioner``, with exact counts; integer means and ties as there."""

    def __init__(self, workers, threshold=1e-4, tolerance=0.01, seed=0):
        self.loads = [0] * workers
        self.threshold, self.tolerance, self.seed = threshold, tolerance, seed
        self.counts, self.regions, self.tuples = {}, {}, 0

    def partition(self, key):
        home = plain.below(plain.mix(key, self.seed << 32), len(self.loads))
        most = (1 + self.tolerance) * self.tuples / len(self.loads)
        self.tuples += 1
        self.counts[key] = self.counts.get(key, 0) + 1
        chosen = home
        if self.counts[key] > self.threshold * self.tuples:
            region = self.regions.setdefault(key, set())
            average = sum(self.loads[w] for w in region or {home}) // len(region or {home})
            if average <= most:
                chosen = min(region or {home}, key=lambda worker: (self.loads[worker], worker))
            else:
                chosen = self.loads.index(min(self.loads))
            region.add(chosen)
        self.loads[chosen] += 1
        return chosen


@given(
    FEW_KEYS,
    st.integers(1, 40),
    st.integers(0, 3),
    st.sampled_from([1e-4, 0.004, 0.008]),
    st.sampled_from([0, 0.01, 0.3]),
)
def test_equals_the_authors(stream, workers, seed, threshold, tolerance):
    """It equals them as long as there are counters for all keys."""
    keys = encode_keys(stream.take(0, 3000, seed))
    options = {"threshold": threshold, "tolerance": tolerance, "seed": seed}
    router, authors = create("HOLISTIC", workers, **options), PlainHolistic(workers, **options)
    assert router.route(keys).tolist() == [authors.partition(int(keys.hashes[code])) for code in keys.codes]


def test_the_tail_stays_at_home_and_the_hot_key_spreads():
    keys = hot(0.8, 5000).take(0, 200_000)
    chosen = create("HOLISTIC", 20, threshold=0.01).route(keys)
    late = slice(100_000, None)
    for key, workers in ((0, range(16, 21)), (1, [1]), (77, [1])):
        assert len(set(chosen[late][keys[late] == key].tolist())) in workers
    assert np.bincount(chosen[late]).max() < 1.02 * 100_000 / 20


def test_what_is_not_counted_any_more_is_forgotten():
    """With 400 counters and 40,000 keys the state stays small, and the hot key keeps its region."""
    router = create("HOLISTIC", 10, threshold=0.01)
    sizes = []
    for batch in range(8):
        keys = np.where(np.arange(5000) % 2, uniform(40_000).take(5000 * batch, 5000 * (batch + 1)), -1)
        router.route(keys)
        sizes.append(len(router.save()))
        assert router.internals()["workers"][:1] >= [5]
    assert max(sizes[2:]) < 20_000
