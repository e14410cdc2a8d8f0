"""BOUNDED_LOAD in plain Python, from its docstring: buckets in a list, places in a dictionary."""

from math import sqrt

import numpy as np

from tests.grouping import plain_hashing as plain
from unskew.grouping import encode

OPEN, WHOLE, FULL = (0.01, 1), (0.06, 6.5), (0.08, 8)


class Place:
    def __init__(self, worker):
        self.workers = [worker]
        self.used = [True]
        self.cursor = 0
        self.since = 0
        self.seen = True


class PlainBoundedLoad:
    def __init__(self, workers, seed=0, slack=0.07, window=100_000, sources=1, weights=None):
        speeds = np.array(weights or [1.0] * workers)
        self.w, self.seed, self.slack = workers, seed, slack
        self.pace = [float(1 / ((1 + slack) * share)) for share in speeds / speeds.sum()]
        self.window = max(1, round(window / sources**0.5))
        self.period = max(1, round(max(window, 300 * workers) / sources**0.5))
        self.nodes = 4 * workers + 1024
        self.placed = 4 * workers if sources == 1 else 0
        self.placing = True
        self.now, self.tuples, self.turn = 0.0, 0, 0
        self.ahead, self.recent, self.passing = [0.0] * workers, [0.0] * workers, [0.0] * workers
        self.rival, self.votes = [0] * workers, [0] * workers
        self.places = {}

    def route(self, keys, costs=None):
        encoded = encode(keys)
        hashes = [int(encoded.hashes[code]) for code in encoded.codes]
        return [self.one(key, 1.0 if costs is None else float(costs[i])) for i, key in enumerate(hashes)]

    def limit(self, kind):
        unit = self.now / self.tuples
        return max(kind[0] * (unit * self.window), kind[1] * (unit * (self.w / (1 + self.slack))))

    def level(self, worker):
        return self.ahead[worker] - self.now

    def named(self, key, look):
        return (((plain.mix(key, (self.seed << 32) + look)) >> 32) * self.w) >> 32

    def one(self, key, cost):
        self.tuples += 1
        self.now += cost
        if key not in self.places and self.placed and self.placing:
            self.place(key)
        place = self.places.get(key)
        worker = place.workers[0] if place else self.named(key, 0)
        split = place is not None and len(place.workers) > 1
        if not split and self.level(worker) > self.limit(WHOLE):
            is_full = self.level(worker) > self.limit(FULL)
            spare = self.nodes - sum(len(place.workers) - 1 for place in self.places.values())
            if self.leads(key, worker) or (is_full and 4 * spare > self.nodes):
                place = self.places.setdefault(key, Place(worker))
                split = True
            elif is_full:
                worker = self.elsewhere(key, False, self.limit(WHOLE))
        if split:
            worker = self.own(place)
            if worker is None:
                worker = self.elsewhere(key, True, self.reach(place))
                self.join(place, worker)
        if place:
            place.seen = True
        self.ahead[worker] = max(self.ahead[worker], self.now) + cost * self.pace[worker]
        self.passing[worker] += cost
        if self.tuples % max(self.window // 10, 10 * self.w) == 0:
            self.estimate()
        if self.tuples % self.period == 0:
            self.tidy()
        return worker

    def join(self, place, worker):
        if len(place.workers) < self.w:
            place.cursor = len(place.workers)
            place.workers.append(worker)
            place.used.append(True)

    def firsts(self, worker):
        return sum(place.workers[0] == worker for place in self.places.values())

    def place(self, key):
        if len(self.places) >= self.placed:
            self.placing = False
            return
        best = self.named(key, 0)
        fewest = self.firsts(best) * self.pace[best]
        if fewest > len(self.places) * (self.w / (1 + self.slack)) / self.w:
            for look in range(1, 16):
                worker = self.named(key, look)
                if self.firsts(worker) * self.pace[worker] < fewest:
                    best, fewest = worker, self.firsts(worker) * self.pace[worker]
        self.places[key] = Place(best)

    def leads(self, key, worker):
        if self.votes[worker] and self.rival[worker] != key:
            self.votes[worker] -= 1
            return False
        if self.rival[worker] != key:
            self.rival[worker], self.votes[worker] = key, 0
        self.votes[worker] += 1
        if self.votes[worker] < 2:
            return False
        self.votes[worker] = 0
        return True

    def reach(self, place):
        return self.limit(OPEN) + (self.limit(WHOLE) - self.limit(OPEN)) * (1 / sqrt(sqrt(len(place.workers))))

    def own(self, place):
        d = len(place.workers)
        reach = self.reach(place)
        if d <= 8:
            open_ones = [i for i in range(d) if self.level(place.workers[i]) <= self.limit(OPEN)]
            found = open_ones[0] if open_ones else min(range(d), key=lambda i: (self.level(place.workers[i]), -i))
            if self.level(place.workers[found]) > reach:
                return None
        else:
            place.since += 1
            begin = place.cursor
            if place.since > d:
                place.since, begin = 1, 0
            circle = [(begin + step) % d for step in range(min(d, 64))]
            found = next((i for i in circle if self.level(place.workers[i]) <= reach), None)
            if found is None:
                return None
        place.cursor = found
        place.used[found] = True
        return place.workers[found]

    def elsewhere(self, key, stays, reach):
        """The least recently loaded that is open; with other sources the first that is."""
        looked, best = [], None
        agree = stays and not self.placed
        opening = min(0.4 * self.limit(FULL), reach) if agree else self.limit(OPEN)
        for look in range(1, 32):
            if look < 16:
                worker = self.named(key, look)
            elif best is not None and self.recent[best] < 0.9:  # good enough
                break
            else:
                worker = self.in_turn()
            looked.append(worker)
            if self.level(worker) <= opening and (best is None or self.recent[worker] < self.recent[best]):
                best = worker
                if not (stays and self.placed):
                    break
        if best is not None:
            self.recent[best] += 0.3 * stays
            return best
        found = min(looked, key=self.level)
        if self.level(found) <= self.limit(FULL):
            return found
        for _ in range(self.w):
            worker = self.in_turn()
            if self.level(worker) <= self.limit(FULL):
                return worker
        return min(range(self.w), key=lambda worker: self.ahead[worker])

    def in_turn(self):
        self.turn = (self.turn + 1) % self.w
        return self.turn

    def estimate(self):
        total = float(np.array(self.passing).sum())
        for worker in range(self.w):
            share = self.passing[worker] / total * self.pace[worker] / (self.w / (1 + self.slack)) * self.w
            self.recent[worker] += (share - self.recent[worker]) / 4
            self.passing[worker] = 0.0

    def tidy(self):
        for key, place in list(self.places.items()):
            kept = [i for i in range(len(place.workers)) if i == 0 or place.used[i]]
            place.workers = [place.workers[i] for i in kept]
            place.used = [False] * len(kept)
            place.cursor = place.since = 0
            stays = self.placed and (self.placing or place.seen)
            place.seen = False
            if len(kept) == 1 and not stays:
                del self.places[key]
        if len(self.places) <= self.placed // 16:
            self.placing = True
