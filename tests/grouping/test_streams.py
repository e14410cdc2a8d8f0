"""The key streams have the distributions that they claim, wherever they are read."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.grouping import streams
from unskew.grouping.streams import alias_table

SOME = {
    "zipf": streams.zipf(1.2, 5000),
    "uniform": streams.uniform(100),
    "hot": streams.hot(0.8, 197),
    "matched": streams.matched(0.0329, 2900),
    "lognormal": streams.lognormal(),
    "drifting": streams.drifting(1.1, 1000, every=1_000_000),
}


@pytest.mark.parametrize("stream", SOME.values(), ids=SOME)
def test_the_most_frequent_key_has_its_share(stream):
    n = 400_000
    share = np.bincount(stream.take(0, n, seed=3)).max() / n
    assert abs(share - stream.p1) < 5 * np.sqrt(stream.p1 / n)


@pytest.mark.parametrize("stream", SOME.values(), ids=SOME)
@settings(max_examples=10, deadline=None)
@given(start=st.integers(0, 200_000), n=st.integers(0, 100_000))
def test_any_part_is_the_same_as_in_the_whole(stream, start, n):
    whole = stream.take(0, 300_000, seed=5)
    assert np.array_equal(stream.take(start, start + n, seed=5), whole[start : start + n])


def test_seeds_give_other_keys():
    stream = streams.zipf(1.0, 1000)
    assert not np.array_equal(stream.take(0, 1000, seed=1), stream.take(0, 1000, seed=2))


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50).filter(lambda weights: sum(weights) > 1e-3))
def test_the_alias_table_holds_exactly_the_weights(weights):
    array = np.array(weights)
    threshold, alias = alias_table(array)
    share = threshold.copy()
    np.add.at(share, alias, 1 - threshold)
    assert np.allclose(share / len(array), array / array.sum(), atol=1e-9)
    assert threshold.min() >= 0
    assert threshold.max() <= 1 + 1e-9


@pytest.mark.parametrize(
    ("stream", "z"),
    [
        (streams.uniform(50), 0.0),
        (streams.zipf(0.5, 50), 0.5),
        (streams.zipf(1.0, 50), 1.0),
        (streams.zipf(2.0, 50), 2.0),
    ],
    ids=["uniform", "0.5", "1", "2"],
)
def test_shares_fall_with_rank(stream, z):
    counts = np.bincount(stream.take(0, 1_000_000), minlength=50)
    weights = np.arange(1.0, 51) ** -z
    expected = weights / weights.sum()
    assert np.abs(counts / 1_000_000 - expected).max() < 0.002


@pytest.mark.parametrize(("mu", "sigma", "p1", "keys"), [(1.789, 2.366, 0.1471, 16_000), (2.245, 1.133, 0.0701, 1_100)])
def test_the_lognormal_streams_are_those_of_the_paper(mu, sigma, p1, keys):
    stream = streams.lognormal(mu, sigma)
    assert stream.p1 == pytest.approx(p1, abs=5e-5)
    distinct = len(np.unique(stream.take(0, 10_000_000, seed=1)))
    assert distinct == pytest.approx(keys, rel=0.05)


def test_ranks_rotate():
    stream = streams.drifting(z=2.0, k=100, every=1000, step=10)
    tops = [np.bincount(stream.take(at, at + 1000)).argmax() for at in range(0, 12_000, 1000)]
    assert tops == [(10 * turn) % 100 for turn in range(12)]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: streams.zipf(1.0, 0), "k is 0"),
        (lambda: streams.hot(1.5), "share is 1.5"),
        (lambda: streams.matched(0.5, 2), "p1 is 0.5"),
        (lambda: streams.lognormal(1.0, 0), "sigma is 0"),
        (lambda: streams.drifting(every=0), "every is 0"),
        (lambda: streams.WeightedStream([0.0, 0.0]), "weights"),
    ],
)
def test_bad_parameters_are_named(make, says):
    with pytest.raises(ValueError, match=says):
        make()
