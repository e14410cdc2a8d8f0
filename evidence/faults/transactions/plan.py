"""The faults of a campaign of transactions: their kinds, and which come, drawn from a seed and from nothing else."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from evidence.faults.transactions.writer import PUTS

#: Kind → the fault in words. A process is killed by SIGKILL, and stopped by SIGSTOP.
OF_WRITERS = {
    "kill": "a process killed before a step",
    "stop": "a process stopped before a step, and woken when others have written",
    "kill-any": "a process killed at a random instant",
    "stop-any": "a process stopped at a random instant, and woken when others have written",
    "two": "two processes write a part's batch at once",
    "three": "three processes write a part's batch at once",
}
OF_BROKERS = {
    "broker": "the broker that is the controller killed, and started again",
    "broker-stopped": "the broker that is the controller stopped",
    "second": "the other broker killed, so that leaders and coordinators move, and later move back",
    "second-stopped": "the other broker stopped until its leaders and coordinators have moved; later they move back",
    "former": "the same, and it goes on while the controller is stopped: it takes itself for the leader",
}
KINDS = OF_WRITERS | OF_BROKERS
#: A process → what it has done before: which steps it comes to.
ROLES = {
    "new": "nothing",
    "kept": "has written the batch before",
    "returned": "had the part, and another process has taken it since",
}
_NEW = "open", "init", "mark", "read"
_KEPT = "begin", "number", "acknowledge"
_ALL = "records", "commit", "committed"
#: Role → the steps at which a process may be struck.
STEPS_OF = {"new": (*_NEW, "begin", "number", *_ALL), "kept": (*_KEPT, *_ALL), "returned": (*_KEPT, *_NEW, *_ALL)}
#: Of a mutant there is one more, the gap that its protocol has.
GAP = "gap"
_GAPS = 3
#: How many of these a round has.
_TIMES = {"kill-any": 8, "stop-any": 8, "two": 4, "three": 2}
_BROKERS = 2  # faults of brokers in a round, which take longer than all others
#: Bounds of how long a broker is down (s).
_HOLD = {
    "broker": (0.0, 2.0),
    "broker-stopped": (0.5, 6.0),
    "second": (0.0, 5.0),
    "second-stopped": (0.0, 2.0),
    "former": (1.0, 5.0),
}
_BESIDE = 0.2  # share of the faults after which the next one comes in the same batch
_RETRYING = 0.5  # share of the attempts that begin again by themselves
_LATEST = 3  # batches


@dataclass(frozen=True)
class Fault:
    """One fault.

    ``kind``: Its name in ``KINDS``. ``role``, ``step``: The process that it strikes, and before which step; empty where
    the kind leaves that open. ``times``: At the step for this time. ``instant``: In [0, 1): when it comes, as a share
    of what a batch usually takes. ``hold``: Seconds that a broker is down. ``later``: A stopped process is woken when
    the part has so many batches more. ``retrying``: Whether the process begins again if it is interrupted. ``beside``:
    Whether the next fault comes in the same batch. ``turns``: How often it is dealt at most, where it can't be
    inflicted.
    """

    kind: str
    role: str
    step: str
    times: int
    instant: float
    hold: float
    later: int
    retrying: bool
    beside: bool
    turns: int = 5


def plan(seed: int, faults: int, without: frozenset[str] = frozenset(), *, gap: bool = False) -> list[Fault]:
    """So many faults, in rounds; each round has all kinds except those in ``without``, and all steps of each role.

    ``gap``: a mutant's gap is a step, too.
    """
    return list(islice(_rounds(random.Random(seed), without, gap=gap), faults))


def _rounds(rng: random.Random, without: frozenset[str], *, gap: bool) -> Iterator[Fault]:
    at_steps = [(kind, role, step) for kind in ("kill", "stop") for role in ROLES for step in _steps(role, gap=gap)]
    brokers: list[str] = []
    while True:
        while len(brokers) < _BROKERS:
            brokers = rng.sample([*OF_BROKERS], len(OF_BROKERS)) + brokers
        others = [kind for kind, times in _TIMES.items() for _ in range(times)]
        others += [brokers.pop() for _ in range(_BROKERS)]
        deck = [*at_steps, *((kind, rng.choice([*ROLES]), "") for kind in others)]
        deck = [each for each in deck if each[0] not in without]
        if not deck:
            return
        rng.shuffle(deck)
        for kind, role, step in deck:
            times = rng.randint(1, PUTS) if step == "records" else 1
            hold = rng.uniform(*_HOLD.get(kind, (0, 0)))
            retrying, beside = rng.random() < _RETRYING, rng.random() < _BESIDE
            yield Fault(kind, role, step, times, rng.random(), hold, rng.randint(0, _LATEST), retrying, beside)


def _steps(role: str, *, gap: bool) -> tuple[str, ...]:
    return (*STEPS_OF[role], *([GAP] * _GAPS if gap else []))
