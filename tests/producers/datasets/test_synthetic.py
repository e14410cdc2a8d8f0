"""The synthetic streams have the distributions that their names say."""

from math import erf, log, sqrt

import numpy as np
import pytest

from tests.producers.datasets.counting import counted, slope
from unskew.producers.datasets.registry import create_dataset


def keys_of(dataset):
    """All keys as the numbers that they are."""
    return np.concatenate([np.array(block.keys.to_pylist(), np.int64) for block in dataset.blocks()])


@pytest.mark.parametrize("z", [0.8, 1.0, 2.0])
def test_zipf_s_frequencies_fall_with_the_rank_by_the_exponent(z):
    counts = counted(create_dataset("ZIPF", z=z, keys=10_000, records=400_000, seed=1))
    weights = np.arange(1, 10_001.0) ** -z
    assert slope(counts.frequencies(), 1, 50) == pytest.approx(z, abs=0.05)
    p1 = weights[0] / weights.sum()
    assert counts.top(1)[0][1] / counts.total == pytest.approx(p1, abs=5 * sqrt(p1 / counts.total))


def test_posg_s_items_are_zipf_and_uniform():
    for alpha in (0.5, 1.0, 3.0):
        frequencies = counted(create_dataset("POSG_ZIPF", alpha=alpha, records=400_000)).frequencies()
        assert slope(frequencies, 1, 20) == pytest.approx(alpha, abs=0.05)
    often = np.bincount(keys_of(create_dataset("POSG_UNIFORM", records=400_000)), minlength=4096)
    assert len(often) == 4096
    mean = often.mean()
    # χ² with 4095 degrees of freedom
    assert abs(((often - mean) ** 2 / mean).sum() - 4095) < 5 * sqrt(2 * 4095)


def test_a_drifting_zipf_hands_its_ranks_on():
    every, step = 20_000, 7
    keys = keys_of(create_dataset("DRIFTING_ZIPF", z=1.5, keys=100, every=every, step=step, records=10 * every))
    hottest = [np.bincount(keys[at : at + every], minlength=100).argmax() for at in range(0, len(keys), every)]
    assert hottest == [turn * step % 100 for turn in range(10)]


@pytest.mark.parametrize(("name", "mu", "sigma"), [("LN1", 1.789, 2.366), ("LN2", 2.245, 1.133)])
def test_lognormal_keys_are_lognormal(name, mu, sigma):
    keys = keys_of(create_dataset(name, records=400_000))

    def below(x):
        return 0.5 * (1 + erf((log(x) - mu) / (sigma * sqrt(2))))

    for key in (1, 2, 5, 10, 30, 100):
        share = below(key + 0.5) - below(key - 0.5)
        assert (keys == key).mean() == pytest.approx(share, abs=5 * sqrt(share / len(keys)))
