"""DYNAMIC_KEY in plain Python, straight from the authors' README: lists of keys, sorted and cut.

Beside it the streams and routers that its tests share: short periods, and a hot key.
"""

from dataclasses import dataclass, field
from math import sqrt

import numpy as np

from tests.grouping import plain_hashing as plain
from unskew.grouping import create


@dataclass(eq=False)
class Key:
    text: object
    born: int
    frequency: float = 0
    seen: int = 0
    checked: int | None = None
    pool: int = 2


def _most_frequent_first(keys):
    """Of equals, the one that came first (the README leaves it open)."""
    return sorted(keys, key=lambda key: (-key.frequency, key.born))


@dataclass
class PlainDynamicKey:
    workers: int
    seed: int = 0
    distinct_keys: int = 100
    warm_up: float = 15
    check_interval: float = 60
    promotion_period: float = 15
    periods_to_old: int = 4
    evict_after: float = 3600
    half_life: float = 0  # s; 0: every tuple counts 1

    baby: list = field(default_factory=list)
    teenage: list = field(default_factory=list)
    old: list = field(default_factory=list)
    start: int | None = None
    now: int | None = None
    cycles: int = 0
    arrived: int = 0
    scale_ups: int = 0
    scale_downs: int = 0

    def __post_init__(self):
        self.loads = [0.0] * self.workers
        self.room = {space: max(1, self.distinct_keys * percent // 100) for space, percent in SIZES.items()}
        ideal = 100 / self.workers
        self.load_to_scale_up = ideal + sqrt(ideal)
        self.load_to_scale_down = ideal - sqrt(ideal)

    def route(self, keys, times):
        return [self.choose(key, time) for key, time in zip(keys, times, strict=True)]

    def choose(self, text, time):
        if self.now is None:
            self.start = self.now = time
        if time > self.now:
            self.pass_time(time)
        key = next((key for key in self.old + self.teenage + self.baby if key.text == text), None)
        worker = self.pick(text, key)
        self.arrived += 1
        if key is None and len(self.baby) < 2 * self.room["baby"]:
            key = Key(text, self.arrived)
            self.baby.append(key)
        weight = 2.0 ** ((self.now - self.start) / (1000 * self.half_life)) if self.half_life else 1
        self.loads[worker] += weight
        if key is not None:
            key.frequency += weight
            key.seen = self.now
        return worker

    def pick(self, text, key):
        pool = key.pool if key else 2
        home = plain.home(text, self.workers, self.seed)
        ring = [(home + step) % self.workers for step in range(self.workers)]
        candidates = ring[: min(pool, self.workers)]
        best = min(candidates, key=self.load)
        if key is None or (key.checked is not None and self.now - key.checked < 1000 * self.check_interval):
            return best
        key.checked = self.now
        warm = self.now - self.start >= 1000 * self.warm_up
        if pool < self.workers and warm and key in self.old and self.load(best) > self.load_to_scale_up:
            joining = ring[pool]
            if self.load(joining) < self.load(best):
                key.pool += 1
                self.scale_ups += 1
                return joining
        elif pool > 2 and sum(self.load(worker) < self.load_to_scale_down for worker in candidates) >= 2:
            key.pool -= 1
            self.scale_downs += 1
            return min(candidates[:-1], key=self.load)
        return best

    def load(self, task):
        return 100 * self.loads[task] / sum(self.loads) if sum(self.loads) else 0

    def pass_time(self, time):
        """All periods that ``time`` passes, each at its own time."""
        while self.start + (self.cycles + 1) * round(1000 * self.promotion_period) <= time:
            self.cycles += 1
            self.promote(self.start + self.cycles * round(1000 * self.promotion_period))
        self.now = time

    def promote(self, at):
        for space in (self.old, self.teenage):
            space[:] = [key for key in space if at - key.seen <= 1000 * self.evict_after]
        self.baby = _most_frequent_first(self.baby)[: self.room["baby"]]
        self.baby, self.teenage = self.up(self.baby, self.teenage, "teenage")
        if self.cycles % self.periods_to_old == 0:
            self.teenage, self.old = self.up(self.teenage, self.old, "old")

    def up(self, lower, upper, space):
        """Fill the upper space with the most frequent, then swap as long as a key below is more frequent."""
        lower, upper = _most_frequent_first(lower), _most_frequent_first(upper)
        while lower and len(upper) < self.room[space]:
            upper.append(lower.pop(0))
        upper = _most_frequent_first(upper)
        while lower and upper and lower[0].frequency > upper[-1].frequency:
            risen, fallen = lower.pop(0), upper.pop()
            upper = _most_frequent_first([*upper, risen])
            lower.append(fallen)
        return lower, upper


SIZES = {"baby": 50, "teenage": 40, "old": 10}

SHORT = {"warm_up": 1, "check_interval": 0.5, "promotion_period": 0.5, "periods_to_old": 2}


def both(workers, keys, times, **options):
    fast = create("DYNAMIC_KEY", workers, **options)
    slow = PlainDynamicKey(workers, **options)
    found = fast.route(keys, times=times).tolist()
    return fast, slow, found, slow.route(keys, np.broadcast_to(times, len(keys)).tolist())


def hot_stream(seconds, hot="tr", share=0.8, per_second=100):
    """A batch a second: ``share`` of one key, the rest of 40 others."""
    rng = np.random.default_rng(5)
    for second in range(seconds):
        others = [f"k{i}" for i in rng.integers(0, 40, per_second)]
        is_hot = rng.random(per_second) < share
        yield 1000 * second, [hot if one else other for one, other in zip(is_hot, others, strict=True)]


def pool_of(router, key):
    return next((item["pool"] for item in router.internals()["old"] if item["key"] == key), 2)
