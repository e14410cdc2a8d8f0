"""BOUNDED_LOAD in plain Python, from its docstring: buckets in a list, replicas in a dictionary."""

from math import ceil, sqrt

import numpy as np

from tests.grouping import plain_hashing as plain
from unskew.grouping import encode_keys

OPEN, WHOLE, FULL = (0.01, 1), (0.06, 6.5), (0.08, 8)


class Replicas:
    def __init__(self, worker):
        self.workers = [worker]
        self.used = [True]
        self.cursor = 0
        self.since = 0
        self.seen = True


class PlainBoundedLoad:
    def __init__(self, workers, seed=0, slack=0.07, window=100_000, sources=1, weights=None, most_workers=None):
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
        self.keys = {}
        self.most = min(most_workers or workers, workers)
        self.find = self.next_allowed if self.most < workers else self.next_worker
        self.part = max(ceil(self.window / 32), ceil(workers / 2))
        self.parts, self.present, self.together, self.unit = [0.0] * 16, 0.0, 0.0, 0.0
        self.full = []  # the full limit at each tuple

    def route(self, keys, costs=None):
        encoded = encode_keys(keys)
        hashes = [int(encoded.hashes[code]) for code in encoded.codes]
        return [self.one(key, 1.0 if costs is None else float(costs[i])) for i, key in enumerate(hashes)]

    def limit(self, kind):
        return max(kind[0] * (self.unit * self.window), kind[1] * (self.unit * (self.w / (1 + self.slack))))

    def level(self, worker):
        return self.ahead[worker] - self.now

    def named(self, key, look):
        return plain.below(plain.mix(key, plain.function(self.seed, look)), self.w)

    def one(self, key, cost):
        self.pay(cost)
        if key not in self.keys and self.placed and self.placing:
            self.choose_first(key)
        replicas = self.keys.get(key)
        worker = replicas.workers[0] if replicas else self.named(key, 0)
        split = replicas is not None and len(replicas.workers) > 1
        if not split and self.most > 1 and self.level(worker) > self.limit(WHOLE):
            is_full = self.level(worker) > self.limit(FULL)
            spare = self.nodes - sum(len(replicas.workers) - 1 for replicas in self.keys.values())
            if self.leads(key, worker) or (is_full and 4 * spare > self.nodes):
                replicas = self.keys.setdefault(key, Replicas(worker))
                split = True
            elif is_full:
                worker = self.find(key, False, self.limit(WHOLE))
        if split:
            worker = self.own(replicas)
            if worker is None:
                worker = self.find(key, True, self.reach(replicas))
                self.join(replicas, worker)
        if replicas:
            replicas.seen = True
        self.ahead[worker] = max(self.ahead[worker], self.now) + cost * self.pace[worker]
        self.passing[worker] += cost
        self.end()
        return worker

    def end(self):
        if self.tuples % self.part == 0:
            self.end_part()
        if self.tuples % max(self.window // 10, 10 * self.w) == 0:
            self.estimate()
        if self.tuples % self.period == 0:
            self.tidy()

    def pay(self, cost):
        """A tuple comes. Within a part the unit only rises."""
        self.tuples += 1
        self.now += cost
        self.present += cost
        self.together += cost
        self.unit = max(self.unit, self.together / (self.counted(self.tuples - 1) + 1))
        self.full.append(self.limit(FULL))

    def counted(self, tuples):
        """Of so many tuples: those in the last 16 parts that have ended, and in the present part."""
        return min(tuples // self.part, 16) * self.part + tuples % self.part

    def end_part(self):
        """The oldest part's cost no longer counts. Levels fall with the limits."""
        self.parts[(self.tuples // self.part - 1) % 16], self.present = self.present, 0.0
        self.together = 0.0
        for part in self.parts:
            self.together += part
        mean = self.together / self.counted(self.tuples)
        if mean < self.unit:
            before, self.unit = self.limit(FULL), mean
            for worker in range(self.w):
                part = min(max(self.level(worker) / before, 0.0), 1.0)
                self.ahead[worker] -= (before - self.limit(FULL)) * part
        if self.now > 2**32 * self.unit:
            self.ahead = [max(self.level(worker), 0.0) for worker in range(self.w)]
            self.now = 0.0

    def allowed(self, key):
        """The workers that a key may have, or the 16 that its hash functions name."""
        if self.most == self.w:
            return [self.named(key, look) for look in range(16)]
        return plain.draw_by_hash(key, self.most, self.w, self.seed)

    def join(self, replicas, worker):
        if self.most < self.w and worker in replicas.workers:
            replicas.used[replicas.workers.index(worker)] = True
        elif len(replicas.workers) < self.w:
            replicas.cursor = len(replicas.workers)
            replicas.workers.append(worker)
            replicas.used.append(True)

    def firsts(self, worker):
        return sum(replicas.workers[0] == worker for replicas in self.keys.values())

    def choose_first(self, key):
        if len(self.keys) >= self.placed:
            self.placing = False
            return
        best = self.named(key, 0)
        fewest = self.firsts(best) * self.pace[best]
        if fewest > len(self.keys) * (self.w / (1 + self.slack)) / self.w:
            for worker in self.allowed(key)[1:16]:
                if self.firsts(worker) * self.pace[worker] < fewest:
                    best, fewest = worker, self.firsts(worker) * self.pace[worker]
        self.keys[key] = Replicas(best)

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

    def reach(self, replicas):
        return self.limit(OPEN) + (self.limit(WHOLE) - self.limit(OPEN)) * (1 / sqrt(sqrt(len(replicas.workers))))

    def own(self, replicas):
        d = len(replicas.workers)
        reach = self.reach(replicas)
        if d <= 8:
            open_ones = [i for i in range(d) if self.level(replicas.workers[i]) <= self.limit(OPEN)]
            found = open_ones[0] if open_ones else min(range(d), key=lambda i: (self.level(replicas.workers[i]), -i))
            if self.level(replicas.workers[found]) > reach:
                return None
        else:
            replicas.since += 1
            begin = replicas.cursor
            if replicas.since > d:
                replicas.since, begin = 1, 0
            circle = [(begin + step) % d for step in range(min(d, 64))]
            found = next((i for i in circle if self.level(replicas.workers[i]) <= reach), None)
            if found is None:
                return None
        replicas.cursor = found
        replicas.used[found] = True
        return replicas.workers[found]

    def next_worker(self, key, stays, reach):
        """The open worker with the least recent load; with other sources the first open one."""
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

    def next_allowed(self, key, stays, reach):
        """The same among the workers that the key may have; none is open: the least ahead, full or not."""
        agree = stays and not self.placed
        opening = min(0.4 * self.limit(FULL), reach) if agree else self.limit(OPEN)
        found = [worker for worker in self.allowed(key) if self.level(worker) <= opening]
        if not found:
            return min(self.allowed(key), key=self.level)
        best = min(found, key=lambda worker: self.recent[worker]) if stays and self.placed else found[0]
        self.recent[best] += 0.3 * stays
        return best

    def in_turn(self):
        self.turn = (self.turn + 1) % self.w
        return self.turn

    def estimate(self):
        total = float(np.array(self.passing).sum())
        for worker in range(self.w):
            part = self.passing[worker] / total if total else 0.0
            share = part * self.pace[worker] / (self.w / (1 + self.slack)) * self.w
            self.recent[worker] += (share - self.recent[worker]) / 4
            self.passing[worker] = 0.0

    def tidy(self):
        for key, replicas in list(self.keys.items()):
            kept = [i for i in range(len(replicas.workers)) if i == 0 or replicas.used[i]]
            replicas.workers = [replicas.workers[i] for i in kept]
            replicas.used = [False] * len(kept)
            replicas.cursor = replicas.since = 0
            stays = self.placed and (self.placing or replicas.seen)
            replicas.seen = False
            if len(kept) == 1 and not stays:
                del self.keys[key]
        if len(self.keys) <= self.placed // 16:
            self.placing = True
