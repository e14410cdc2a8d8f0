"""How many replicas PLANNED has in small batches, beside the fewest possible at its cap, which are found exactly."""

import numpy as np
import pytest

from tests.grouping.fewest_replicas import fewest, fewest_added
from unskew.grouping import encode_keys
from unskew.grouping.hashing import choose_homes, hash_function
from unskew.grouping.planned import Planned


def small(seed):
    """W, and four batches of a few keys whose shares stay the same: the tuples of each key, int64[4, K]."""
    rng = np.random.default_rng(seed)
    keys, workers, n = rng.integers(2, 9), int(rng.integers(2, 6)), rng.integers(20, 2000)
    shares = (np.ones(keys), np.arange(1, keys + 1) ** -1.0, rng.lognormal(0, 1, keys), rng.random(keys))[seed % 4]
    return workers, rng.multinomial(n, shares / shares.sum(), 4)


def routed(planner, counts, names):
    """The workers of each key in a batch with so many tuples of each."""
    keys = np.repeat(names, counts)
    chosen = planner.route(keys)
    return [set(chosen[keys == name].tolist()) for name in names]


@pytest.fixture(scope="module")
def beyond():
    """The replicas beyond the fewest possible: of each first batch, and added in each later batch."""
    first, later = [], []
    for seed in range(200):
        workers, batches = small(seed)
        names = 1000 * seed + np.arange(batches.shape[1])
        planner, replicas = (
            Planned(workers),
            [{home} for home in choose_homes(encode_keys(names).hashes, hash_function(0), workers)],
        )
        for number, counts in enumerate(batches):
            n, there = int(counts.sum()), np.flatnonzero(counts)
            cap = max(-(-n // workers), int(1.05 * n / workers + 1e-6))
            found, loads = routed(planner, counts, names), counts[there].tolist()
            if number:
                added = sum(len(found[k] - replicas[k]) for k in there)
                later.append(added - fewest_added(loads, [replicas[k] for k in there], [cap] * workers))
            else:
                first.append(sum(map(len, found)) - fewest(loads, workers, cap))
            for k in there:
                replicas[k] = found[k] | replicas[k] if number else found[k]
    return np.array(first), np.array(later)


@pytest.mark.parametrize(("number", "none"), [(0, 0.85), (1, 0.99)], ids=["first batch", "later batches"])
def test_few_replicas_are_added(beyond, number, none):
    more = beyond[number]
    assert more.min() >= 0, "nothing is below the fewest"
    assert (more <= 1).mean() >= 0.95
    assert (more == 0).mean() >= none
