"""DALTON equals a plain version of its authors' code, and does what it says of hot keys."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.grouping import plain_hashing as plain
from unskew.grouping import create, encode_keys
from unskew.grouping.streams import hot, uniform, zipf


class PlainDalton:
    """As the authors' ``ContextualBandits``, ``State``, ``HotStatistics``; exact counts, and replicas that expire."""

    def __init__(self, workers, slide, window, explore, splits, seed=0):
        self.w, self.slide, self.window, self.explore = workers, slide, window // slide, explore
        self.splits, self.seed = splits or workers, seed
        self.tuples, self.counts, self.threshold = 0, {}, slide
        self.loads, self.sent = [0] * workers, []  # of the window; the worker of each tuple
        self.hot, self.q, self.replicas, self.sated, self.split = {}, {}, {}, set(), 2

    def begin_slide(self, now):
        self.counts, self.threshold = {}, self.slide // self.w
        expired = self.sent[max(0, now - self.window - 1) * self.slide : max(0, now - self.window) * self.slide]
        for worker in expired:
            self.loads[worker] -= 1
        for key in [key for key, expires in self.hot.items() if expires <= now]:
            del self.hot[key], self.q[key], self.replicas[key]
            self.sated.discard(key)

    def draw(self, key, home, oldest):
        """The worker of a hot key."""
        number = plain.function(self.seed, 1 << 31)
        drawn = plain.mix(self.tuples, number)
        if (drawn >> 11) * 2.0**-53 >= self.explore:
            q = self.q[key]
            tried = list(reversed(q))  # the latest first, and the home before those that are as good
            return max(tried, key=lambda worker: (q[worker], worker == home))
        again = plain.mix(drawn, number)
        if key in self.sated:
            replicas = [worker for worker in reversed(self.q[key]) if self.replicas[key][worker] >= oldest]
            return replicas[plain.below(again, len(replicas))]
        return plain.below(again, self.w)

    def partition(self, key):
        now = self.tuples // self.slide
        if now and self.tuples % self.slide == 0:
            self.begin_slide(now)
        self.counts[key] = self.counts.get(key, 0) + 1
        chosen = home = plain.below(plain.mix(key, self.seed << 32), self.w)
        if self.counts[key] > self.threshold:
            if key not in self.hot:
                self.q[key], self.replicas[key] = {home: -2.0}, {home: now}
            self.hot[key] = now + 2
        self.tuples += 1
        oldest = now - self.window
        if key in self.hot:
            chosen = self.draw(key, home, oldest)
            self.q[key].setdefault(chosen, -2.0)
            self.replicas[key][chosen] = now
        self.loads[chosen] += 1
        self.sent.append(chosen)
        if key in self.hot:
            replicas = sum(last >= oldest for last in self.replicas[key].values())
            mean = sum(self.loads) / self.w
            cost = (self.loads[chosen] - mean) / max(self.loads[chosen], mean)
            self.learn(key, chosen, -(cost + replicas / self.w) / 2, replicas)
        return chosen

    def learn(self, key, worker, reward, replicas):
        self.q[key][worker] += 0.1 * (reward - self.q[key][worker])
        if replicas == self.split:
            self.sated.add(key)
        if self.split < self.splits and len(self.sated) >= 0.7 * len(self.hot):
            self.sated.clear()
            self.split += 1


@given(
    st.sampled_from([hot(0.0, 30), hot(0.3, 60), hot(0.8, 30), hot(1.0), zipf(0.8, 60), zipf(1.6, 80)]),
    st.integers(6, 40),
    st.integers(0, 3),
    st.sampled_from([(50, 50), (90, 300), (250, 1000), (5000, 5000)]),
    st.sampled_from([0, 0.1, 0.9]),
    st.sampled_from([None, 2, 6]),
)
def test_equals_the_authors(stream, workers, seed, spans, explore, splits):
    """It equals them as long as there are counters for all keys; a second stream follows, so that hot keys get cold."""
    keys = encode_keys(np.concatenate([stream.take(0, 1500, seed), 500 + hot(0.5, 20).take(0, 1500, seed)]))
    options = {"seed": seed, "slide": spans[0], "window": spans[1], "explore": explore, "splits": splits}
    router, authors = create("DALTON", workers, **options), PlainDalton(workers, **options)
    assert router.route(keys).tolist() == [authors.partition(int(keys.hashes[code])) for code in keys.codes]


def test_a_hot_key_spreads_and_goes_home_again():
    router = create("DALTON", 10, slide=2000, window=20_000)
    heated, cold = hot(0.8, 5000).take(0, 100_000), uniform(5000).take(0, 50_000)
    chosen = router.route(heated)
    late = slice(50_000, None)
    assert len(set(chosen[late][heated[late] == 0].tolist())) >= 8
    assert len(set(chosen[heated == 1].tolist())) == 1
    assert np.bincount(chosen[late]).max() < 1.2 * 50_000 / 10
    assert router.internals()["hot"] == 1
    router.route(cold[:4000])
    assert len(set(router.route(cold[4000:])[cold[4000:] == 0].tolist())) == 1
    assert router.internals()["hot"] == 0
