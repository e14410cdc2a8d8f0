"""``half_life``, and D_CHOICES' own choices: equal to plain versions, and calm soon after the stream has changed."""

from math import ceil, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.grouping import plain_hashing as plain
from unskew.grouping import create, encode_keys
from unskew.grouping.streams import hot, uniform, zipf

streams = st.sampled_from([hot(0.0, 60), hot(0.8, 30), hot(1.0), zipf(0.8, 70), zipf(1.6, 70)])
half_lives = st.sampled_from([None, 1, 97, 1000, 10_000])


class Plain:
    """Counts that are halved; few enough keys that each has a counter."""

    def __init__(self, workers, half_life):
        self.w, self.half_life, self.tuples, self.age = workers, half_life, 0, 0
        self.loads, self.counts, self.more, self.where = [0] * workers, {}, {}, {}

    def route(self, keys, choose):
        """``choose(self, key)`` → worker."""
        for key in keys:
            self.tuples += 1
            self.counts[key] = self.counts.get(key, 0) + 1
            worker = choose(self, key)
            self.loads[worker] += 1
            yield worker
            self.age += 1
            if self.age == self.half_life:
                self.age, self.tuples = 0, self.tuples // 2
                self.loads = [load // 2 for load in self.loads]
                self.counts = {key: count // 2 for key, count in self.counts.items()}
                self.more = {key: more // 2 for key, more in self.more.items()}

    def least(self, workers):
        return min(workers, key=lambda worker: self.loads[worker])

    def is_heavy(self, key):
        expected = 0.2 / self.w * self.tuples
        return self.counts[key] > expected and self.counts[key] >= expected + 3 * sqrt(expected) + 3

    def partial_key(self, key):
        return self.least(plain.draw_by_hash(key, 2, self.w))

    def on_greedy(self, key):
        return self.where.setdefault(key, self.least(range(self.w)))

    def w_choices(self, key):
        return self.least(range(self.w) if self.is_heavy(key) else plain.draw_by_hash(key, 2, self.w))

    def own_choices(self, key):
        """Section "own_choices" of D_CHOICES' docstring."""
        if not self.is_heavy(key):
            return self.least(plain.draw_by_hash(key, 2, self.w))
        more = self.more.setdefault(key, 0)
        d = max(2, ceil(self.counts[key] / self.tuples * self.w)) + more
        if d >= self.w:
            return self.least(range(self.w))
        named = [plain.below(plain.mix(key, plain.function(0, j)), self.w) for j in range(2, d)]
        worker = self.least([*plain.draw_by_hash(key, 2, self.w), *named])
        if self.loads[worker] - self.tuples / self.w > 1e-4 * self.tuples + 3:
            self.more[key] = more + 1
        return worker


@pytest.mark.parametrize(
    ("name", "options", "choose"),
    [
        ("PARTIAL_KEY", {}, Plain.partial_key),
        ("ON_GREEDY", {}, Plain.on_greedy),
        ("W_CHOICES", {}, Plain.w_choices),
        ("D_CHOICES", {"own_choices": True}, Plain.own_choices),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@settings(max_examples=25, deadline=None)
@given(streams, half_lives, st.integers(4, 40), st.integers(0, 3))
def test_equals_the_plain_version(name, options, choose, stream, half_life, workers, seed):
    keys = encode_keys(stream.take(0, 2500, seed))
    router = create(name, workers, half_life=half_life, **options)
    expected = Plain(workers, half_life).route([int(keys.hashes[code]) for code in keys.codes], choose)
    assert router.route(keys).tolist() == list(expected)


def changing():
    """Uniform for 400,000 tuples, then a key of 80 % for as many, another one, and uniform again."""
    quiet, heated = uniform(4096), hot(0.8, 4096)
    n = 400_000
    yield from (quiet.take(0, n), heated.take(0, n), (heated.take(n, 2 * n) + 17) % 4096, quiet.take(n, 2 * n))


def after(name, **options):
    """max/mean of the fourth window of 50,000 after each change."""
    router = create(name, 10, **options)
    chosen = [router.route(keys)[150_000:200_000] for keys in changing()]
    return [np.bincount(part, minlength=10).max() / 5000 for part in chosen][1:]


def test_change_is_forgotten():
    """The stream has a hot key, then another, then none: without a half-life all shares and loads of the past count."""
    appeared, swapped, _ = after("D_CHOICES")
    assert appeared > 2
    assert swapped > 1.2
    assert max(after("D_CHOICES", half_life=50_000, own_choices=True)) < 1.05
    assert max(after("W_CHOICES", half_life=50_000)) < 1.05
    assert after("PARTIAL_KEY")[2] > 1.2
    assert after("PARTIAL_KEY", half_life=50_000)[2] < 1.05
