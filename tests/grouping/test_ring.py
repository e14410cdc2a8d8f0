"""CONSISTENT_HASH against the paper's ring in plain Python (section 4.2), and its load balancer against predicate 1."""

from bisect import bisect_left

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.grouping.plain_hashing import function, key_hash, mix
from unskew.grouping import create
from unskew.grouping.feedback import Plan


class PlainRing:
    def __init__(self, tokens, seed=0):
        self.seed = seed
        self.tokens = {node: [f"{node}-{j}" for j in range(count)] for node, count in enumerate(tokens)}

    def place(self, text):
        return mix(key_hash(text), function(self.seed))

    def key_lookup(self, key):
        ring = sorted((self.place(token), node) for node, tokens in self.tokens.items() for token in tokens)
        at = bisect_left(ring, (self.place(key), -1))
        return ring[at % len(ring)][1]

    def halve(self, node):
        kept = len(self.tokens[node]) - len(self.tokens[node]) // 2
        self.tokens[node] = self.tokens[node][:kept]

    def double(self, relieved):
        for node, tokens in self.tokens.items():
            if node != relieved:
                tokens += [f"{node}-{j}" for j in range(len(tokens), 2 * len(tokens))]


METHODS = ("halving", "doubling")


@given(
    workers=st.integers(1, 8),
    method=st.sampled_from(METHODS),
    start=st.sampled_from([1, 2, 8]),
    seed=st.integers(0, 1000),
    relieved=st.lists(st.integers(0, 7), max_size=5),
    keys=st.lists(st.text(max_size=5) | st.integers(-(2**63), 2**63 - 1).map(str), min_size=1, max_size=30),
)
def test_equals_the_paper(workers, method, start, seed, relieved, keys):
    router = create("CONSISTENT_HASH", workers, seed=seed, method=method, tokens=start, rounds=9, threshold=0)
    controller = router.controller()
    plain = PlainRing([start] * workers, seed)
    assert router.route(keys).tolist() == [plain.key_lookup(key) for key in keys]
    for node in (n for n in relieved if n < workers):
        queues = np.zeros(workers)
        queues[node] = 10
        plan = controller.plan({}, queues)
        if plan is None:
            assert workers == 1 or (method == "halving" and len(plain.tokens[node]) == 1)
            continue
        router.adopt(plan)
        plain.halve(node) if method == "halving" else plain.double(node)
        assert router.route(keys).tolist() == [plain.key_lookup(key) for key in keys]


@pytest.mark.parametrize(
    ("queues", "threshold", "triggers"),
    [
        ([10, 5, 5], 0.2, True),
        ([12, 10, 0], 0.2, False),  # Qmax = Qs·(1 + τ) isn't above it
        ([12.1, 10, 0], 0.2, True),
        ([5, 5, 0], 0.0, False),
        ([6, 5, 0], 0.0, True),
        ([1, 0, 0], 5.0, True),
        ([0, 0, 0], 0.2, False),
    ],
)
def test_the_trigger(queues, threshold, triggers):
    controller = create("CONSISTENT_HASH", 3, threshold=threshold).controller()
    plan = controller.plan({}, queues)
    assert (plan is not None) == triggers
    if plan is not None:
        assert plan.values["tokens"].tolist() == [1, 2, 2]


def test_rounds_are_counted_for_each_worker():
    controller = create("CONSISTENT_HASH", 3, rounds=2).controller()
    made = [controller.plan({}, queues) is not None for queues in [[9, 1, 1]] * 3 + [[1, 9, 1]] * 3]
    assert made == [True, True, False, True, True, False]
    assert create("CONSISTENT_HASH", 3, rounds=0).controller().plan({}, [9, 1, 1]) is None


def test_doubling_stops_at_the_most_tokens():
    controller = create("CONSISTENT_HASH", 4, rounds=50, max_tokens=40).controller()
    for _ in range(50):
        controller.plan({}, [9, 1, 1, 1])
    assert controller.tokens.tolist() == [1, 8, 8, 8]


def planned(router, tokens):
    return Plan(1, 0, router.controller().identity, {"tokens": tokens})


@given(seed=st.integers(0, 200), node=st.integers(0, 9))
def test_halving_moves_the_relieved_workers_keys_only(seed, node):
    router = create("CONSISTENT_HASH", 10, seed=seed, method="halving")
    keys = np.arange(2000)
    before = router.route(keys)
    router.adopt(planned(router, np.where(np.arange(10) == node, 4, 8)))
    after = router.route(keys)
    assert (before[before != after] == node).all()


@given(seed=st.integers(0, 200), node=st.integers(0, 9))
def test_doubling_gives_the_relieved_worker_nothing(seed, node):
    router = create("CONSISTENT_HASH", 10, seed=seed)
    keys = np.arange(2000)
    before = router.route(keys)
    router.adopt(planned(router, np.where(np.arange(10) == node, 1, 2)))
    after = router.route(keys)
    assert (before[after == node] == node).all()
