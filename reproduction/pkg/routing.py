"""Routing alone: the papers' measure needs no queues."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.grouping import create
from unskew.grouping.keys import Keys
from unskew.grouping.measures import imbalance_fraction
from unskew.grouping.simulator import Workload
from unskew.grouping.simulator.outcome import count_loads
from unskew.grouping.simulator.sources import Sources


@dataclass(frozen=True, slots=True)
class Spread:
    """Where m messages went.

    Attributes
    ----------
    final, average : float
        I(m) / m, and the mean of I(t) over all t, over m.
    assigned : int32[m]
        The worker of each message.

    """

    final: float
    average: float
    assigned: NDArray[np.int32]


def route(name: str, keys: Keys, workers: int, *, sources: int = 1, seed: int = 0, **options: Any) -> Spread:
    """Route the messages, dealt evenly to the sources."""
    m = len(keys)
    load = Workload(keys, np.arange(m, dtype=np.float64), np.ones(m))
    senders = Sources(lambda: create(name, workers, seed=seed, **options), load, sources, "even")
    assigned = np.empty(m, np.int32)
    senders.route(0, m, assigned)
    loads, average = count_loads(assigned, np.array([m]), workers)
    return Spread(imbalance_fraction(loads[-1]), average / m, assigned)
