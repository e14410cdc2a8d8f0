"""PORC equals its authors' code, keeps its bound at every tuple, and a key spills over only past full choices."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.grouping import plain_hashing as plain
from tests.grouping.skewed import FEW_KEYS
from unskew.grouping import create, encode_keys
from unskew.grouping.streams import hot, uniform


class PlainPorc:
    """As the authors' ``ConsistentGroupingPoRCSingleSource``; the salt is the number of the hash function."""

    def __init__(self, workers, tolerance=0.01, virtual=10, seed=0):
        self.worker_of = [worker for worker in range(workers) for _ in range(virtual)]
        self.loads = [0] * len(self.worker_of)
        self.tolerance, self.seed, self.messages = tolerance, seed, 0

    def choice(self, key, salt):
        return plain.below(plain.mix(key, plain.function(self.seed, salt)), len(self.loads))

    def server(self, key):
        self.messages += 1
        average = self.messages / len(self.loads)
        salt = 0
        while self.loads[self.choice(key, salt)] >= (1 + self.tolerance) * average:
            salt += 1
        chosen = self.choice(key, salt)
        self.loads[chosen] += 1
        return self.worker_of[chosen]


tolerances = st.sampled_from([0.005, 0.01, 0.3, 3, 1e300])


@given(FEW_KEYS, st.integers(1, 40), st.integers(0, 3), tolerances, st.integers(1, 12))
def test_equals_the_authors(stream, workers, seed, tolerance, virtual):
    keys = encode_keys(stream.take(0, 2000, seed))
    options = {"tolerance": tolerance, "virtual": virtual, "seed": seed}
    router, authors = create("PORC", workers, **options), PlainPorc(workers, **options)
    assert router.route(keys).tolist() == [authors.server(int(keys.hashes[code])) for code in keys.codes]


@given(FEW_KEYS, st.integers(1, 100), st.integers(0, 3), tolerances, st.integers(1, 12), st.booleans())
def test_no_worker_has_more_than_the_bound_after_any_tuple(stream, workers, seed, tolerance, virtual, in_order):
    keys = stream.take(0, 3000, seed)
    chosen = create("PORC", workers, seed=seed, tolerance=tolerance, virtual=virtual).route(
        np.sort(keys) if in_order else keys
    )
    loads = np.cumsum(chosen[:, None] == np.arange(workers), axis=0)
    tuples = np.arange(1, len(keys) + 1)
    bound = (1 + tolerance) * tuples / workers + virtual
    assert (loads.max(axis=1) < bound * (1 + 1e-12)).all()  # 1.3 · (2970 / 13) is more than 297, by rounding


def test_a_key_begins_at_its_home():
    keys = [f"k{i}" for i in range(500)]
    home = create("KEY", 50).route(keys)
    assert [int(create("PORC", 50).route([key])[0]) for key in keys] == home.tolist()


def test_a_half_life_balances_what_comes_after_a_change():
    """A key of 80 % comes late. By totals, the workers that are behind their mean take all of it."""
    before, after = uniform(4096).take(0, 200_000), hot(0.8, 4096).take(200_000, 300_000)
    worst = {}
    for half_life in (None, 10_000):
        router = create("PORC", 10, tolerance=0.3, half_life=half_life)
        router.route(before)
        worst[half_life] = np.bincount(router.route(after)[50_000:], minlength=10).max() * 10 / 50_000
    assert worst[10_000] < 1.4 < worst[None]
