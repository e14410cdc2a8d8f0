"""The routing table paper's algorithms in plain Python, line by line from its pseudo-code, in exact arithmetic.

Keys are numbers from 0; equal keys are taken in this order, equally loaded workers in theirs.
"""

from dataclasses import dataclass, field
from fractions import Fraction


@dataclass
class Stream:
    """What one interval showed: cost, memory, F and h of each key."""

    cost: list[int]
    memory: list[int]
    current: list[int]
    home: list[int]
    workers: int
    theta_max: Fraction = Fraction(0)
    destination: list = field(default_factory=list)

    @property
    def limit(self):
        return (1 + Fraction(self.theta_max)) * Fraction(sum(self.cost), self.workers)

    def gamma(self, k, beta):
        return self.cost[k] ** beta / self.memory[k]

    def table(self, destination):
        return sum(d != h for d, h in zip(destination, self.home, strict=True))

    def migration(self, destination):
        return sum(s for s, d, f in zip(self.memory, destination, self.current, strict=True) if d != f)

    def loads(self, destination):
        return [sum(c for c, d in zip(self.cost, destination, strict=True) if d == w) for w in range(self.workers)]


def by(psi):
    """A selection criterion: the keys of the largest value first."""
    return lambda keys: sorted(keys, key=lambda k: (-psi(k), k))


def prepare(stream, where, select):
    """Phase II: where each key is (None: in C)."""
    for d in range(stream.workers):
        for k in select([k for k, w in enumerate(where) if w == d]):
            if stream.loads(where)[d] > stream.limit:
                where[k] = None
    return where


def llfd(stream, where, select):
    """Algorithm 1 for the candidates C = those keys that are nowhere."""
    where = list(where)
    load = stream.loads(where)
    candidates = {k for k, w in enumerate(where) if w is None}
    while candidates:
        k = min(candidates, key=lambda k: (-stream.cost[k], k))
        for d in sorted(range(stream.workers), key=lambda d: (load[d], d)):
            exchanged = adjust(stream, where, load, select, k, d)
            if exchanged is not None:
                break
        else:
            d, exchanged = no_worker_takes(stream, where, load, k)
        for other in exchanged:
            where[other] = None
            load[d] -= stream.cost[other]
            candidates.add(other)
        where[k] = d
        load[d] += stream.cost[k]
        candidates.remove(k)
    return where


def adjust(stream, where, load, select, k, d):
    """The exchangeable set (none needed: empty), or None for FALSE."""
    rest = load[d] + stream.cost[k]
    exchangeable = []
    for other in select([o for o, w in enumerate(where) if w == d and stream.cost[o] < stream.cost[k]]):
        if rest > stream.limit:
            exchangeable.append(other)
            rest -= stream.cost[other]
    return exchangeable if rest <= stream.limit else None


def no_worker_takes(stream, where, load, k):
    """The paper doesn't say; see ``Llfd``."""
    ascending = sorted(range(stream.workers), key=lambda d: (load[d], d))
    if stream.cost[k] <= stream.limit:
        return ascending[0], []
    smaller = {d: [o for o, w in enumerate(where) if w == d and 0 < stream.cost[o] < stream.cost[k]] for d in ascending}
    best = min(ascending, key=lambda d: load[d] - sum(stream.cost[o] for o in smaller[d]))
    return best, smaller[best]


def phases(stream, back, psi):
    """Phases I to III with ``back`` entries moved home, smallest memory first."""
    routed = [k for k in range(len(stream.cost)) if stream.current[k] != stream.home[k]]
    where = list(stream.current)
    for k in sorted(routed, key=lambda k: (stream.memory[k], k))[:back]:
        where[k] = stream.home[k]
    return llfd(stream, prepare(stream, where, by(psi)), by(psi))


def mintable(stream):
    """Algorithm 2."""
    return phases(stream, len(stream.cost), lambda k: stream.cost[k])


def minmig(stream, beta):
    """Algorithm 3."""
    return phases(stream, 0, lambda k: stream.gamma(k, beta))


def mixed(stream, table_max, beta):
    """Algorithm 4; when even n = N_A doesn't do, MINTABLE (appendix B)."""
    routed = stream.table(stream.current)
    n = 0
    while True:
        destination = phases(stream, n, lambda k: stream.gamma(k, beta))
        over = stream.table(destination) - table_max
        if over <= 0:
            return destination
        if n == routed:
            return mintable(stream)
        n = min(n + over, routed)


def mixed_bf(stream, table_max, beta):
    """Section 3.3: every n; of those within the table bound, then of the balanced ones, the one that moves least."""
    best = None
    for n in range(stream.table(stream.current) + 1):
        destination = phases(stream, n, lambda k: stream.gamma(k, beta))
        highest = max(stream.loads(destination))
        score = (max(highest - stream.limit, 0), stream.migration(destination))
        if stream.table(destination) <= table_max and (best is None or score < best[0]):
            best = (score, destination)
    return best[1] if best else mintable(stream)


def readj(stream, sigma):
    """Tracked keys stay, other entries go home; then the move or swap of least variance, while it helps."""
    mean = Fraction(sum(stream.cost), stream.workers)
    tracked = [k for k in range(len(stream.cost)) if stream.cost[k] >= Fraction(sigma) * mean]
    where = [stream.current[k] if k in tracked else stream.home[k] for k in range(len(stream.cost))]

    def variance(where):
        return sum((load - mean) ** 2 for load in stream.loads(where))

    while max(stream.loads(where)) > stream.limit:
        best = None
        moves = [(k, d, None) for k in tracked for d in range(stream.workers) if d != where[k]]
        swaps = [(k, where[o], o) for k in tracked for o in tracked if o > k and where[o] != where[k]]
        for k, d, other in moves + swaps:
            after = list(where)
            after[k] = d
            if other is not None:
                after[other] = where[k]
            score = (variance(after), stream.migration(after))
            if best is None or score < best[0]:
                best = (score, after)
        if best is None or best[0][0] >= variance(where):
            break
        where = best[1]
    return where


def discretise(descending, degree):
    """Section 4.2, for values in descending order whose smallest is 1."""
    linear = [n * degree for n in range(1, descending[0] // degree + 2)]
    exponential = [2**n for n in range(degree.bit_length()) if 2**n < degree]
    representatives = sorted({*linear, *exponential})
    deviation, phi = 0, []
    for x in descending:
        below = max(y for y in representatives if y <= x)
        above = min(y for y in representatives if y >= x)
        phi.append(above if deviation > 0 else below)
        deviation += x - phi[-1]
    return phi
