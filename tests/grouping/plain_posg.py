"""POSG in plain Python, straight from the paper's listings and figures (III.1, III.2, 2, 3)."""

from dataclasses import dataclass, field
from math import inf

from tests.grouping.plain_hashing import below, function, key_hash, mix


@dataclass
class Sketch:
    rows: int
    columns: int
    seed: int

    def __post_init__(self):
        self.f = [[0] * self.columns for _ in range(self.rows)]
        self.w = [[0.0] * self.columns for _ in range(self.rows)]

    def hashed(self, i, t):
        return below(mix(key_hash(t), function(self.seed, i)), self.columns)

    def update(self, t, time):
        for i in range(self.rows):
            self.f[i][self.hashed(i, t)] += 1
            self.w[i][self.hashed(i, t)] += time

    def estimate(self, t):
        i = min(range(self.rows), key=lambda row: self.f[row][self.hashed(row, t)])
        f, w = self.f[i][self.hashed(i, t)], self.w[i][self.hashed(i, t)]
        return w / f if f else sum(self.w[0]) / sum(self.f[0])

    def ratios(self):
        return [
            [w / f if f else 0.0 for f, w in zip(fs, ws, strict=True)] for fs, ws in zip(self.f, self.w, strict=True)
        ]


@dataclass
class Instance:
    """An operator instance: Figure 2."""

    new_sketch: object
    window: int
    tolerance: float
    spent: float = 0.0
    free: float = 0.0
    executed: int = 0
    snapshot: list | None = None  # None in START

    def __post_init__(self):
        self.sketch = self.new_sketch()

    def execute(self, t, time):
        """Matrices to send, or None."""
        self.sketch.update(t, time)
        self.spent += time
        self.executed += 1
        if self.executed % self.window:
            return None
        present = self.sketch.ratios()
        if self.snapshot is not None and self.error(present) <= self.tolerance:
            stable, self.sketch, self.snapshot, self.executed = self.sketch, self.new_sketch(), None, 0
            return stable
        self.snapshot = present
        return None

    def error(self, present):
        off = sum(
            abs(s - p) for ss, ps in zip(self.snapshot, present, strict=True) for s, p in zip(ss, ps, strict=True)
        )
        total = sum(s for ss in self.snapshot for s in ss)
        return 0 if off == 0 else off / total if total else inf


@dataclass
class Scheduler:
    """Figure 3."""

    k: int
    state: str = "ROUND_ROBIN"
    submitted: int = 0
    epoch: int = 0
    requests: int = 0
    sketches: dict = field(default_factory=dict)
    replies: dict = field(default_factory=dict)

    def __post_init__(self):
        self.c = [0.0] * self.k

    def matrices(self, op, sketch):
        self.sketches[op] = sketch
        if self.state != "ROUND_ROBIN" or len(self.sketches) == self.k:
            self.state, self.requests, self.replies = "SEND_ALL", 0, {}
            self.epoch += 1

    def reply(self, op, epoch, delta):
        if epoch != self.epoch or self.state not in ("SEND_ALL", "WAIT_ALL"):
            return
        self.replies[op] = delta
        if len(self.replies) == self.k:
            self.c = [c + self.replies[i] for i, c in enumerate(self.c)]
            self.state = "RUN"

    def submit(self, t):
        """(instance, request to send along or None)."""
        if self.state == "ROUND_ROBIN":
            self.submitted += 1
            return (self.submitted - 1) % self.k, None
        if self.state == "SEND_ALL":
            op = self.requests
            self.requests += 1
            if self.requests == self.k:
                self.state = "WAIT_ALL"
            self.c[op] += self.sketches[op].estimate(t)
            return op, (self.epoch, self.c[op])
        op = min(range(self.k), key=lambda i: self.c[i])
        self.c[op] += self.sketches[op].estimate(t)
        return op, None


def run(keys, arrivals, services, k, *, rows, columns, seed, window, tolerance, latency, settle):
    """One scheduler and k instances, event by event: (instances, finishes, states, messages)."""
    scheduler = Scheduler(k)
    instances = [Instance(lambda: Sketch(rows, columns, seed), window, tolerance) for _ in range(k)]
    under_way, sent = [], 0
    chosen, finishes, states = [], [], []
    for t, arrival, service in zip(keys, arrivals, services, strict=True):
        for message in sorted((m for m in under_way if m[0] <= arrival), key=lambda m: m[:2]):
            under_way.remove(message)
            getattr(scheduler, message[2])(*message[3:])
        states.append(scheduler.state)
        op, request = scheduler.submit(t)
        instance = instances[op]
        instance.free = max(arrival, instance.free) + service[op]
        stable = instance.execute(t, service[op])
        arrives = instance.free + latency
        if request:
            epoch, estimated = request
            spent = instance.spent if settle == "work" else instance.free
            under_way.append((arrives, sent, "reply", op, epoch, spent - estimated))
            sent += 1
        if stable:
            under_way.append((arrives, sent, "matrices", op, stable))
            sent += 1
        chosen.append(op)
        finishes.append(instance.free)
    return chosen, finishes, states, sent
