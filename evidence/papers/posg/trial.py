"""One stream of the POSG paper's kind, scheduled by POSG, by round robin and with full knowledge."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evidence.papers.posg.timeline import Timeline, run_timeline
from unskew.grouping import create, encode_keys, streams
from unskew.grouping.posg import Posg
from unskew.grouping.simulator.workers import new_queues, serve_tuples


@dataclass(frozen=True, slots=True)
class Stream:
    """Section V-A: m tuples of n items for k instances; an item's cost is one of w_n values evenly from 1 to w_max ms.

    ``z`` None is the uniform distribution; ``provisioning`` is the k instances' capacity over the arriving work.
    """

    m: int = 32_768
    n: int = 4_096
    z: float | None = 1.0
    w_n: int = 64
    w_max: float = 64.0
    k: int = 5
    provisioning: float = 1.0


@dataclass(frozen=True, slots=True)
class Trial:
    """Mean completion times, ms, and POSG's timeline."""

    posg: float
    round_robin: float
    full_knowledge: float
    timeline: Timeline

    @property
    def speed_up(self) -> float:
        """S_L of POSG over round robin."""
        return self.round_robin / self.posg

    @property
    def runs_from(self) -> int | None:
        """The first tuple that is scheduled in state RUN."""
        running = np.flatnonzero(self.timeline.states == 3)
        return int(running[0]) if len(running) else None


def trial(stream: Stream, seed: int, **options: Any) -> Trial:
    """Draw the stream (its items, and each item's cost) and schedule it in three ways."""
    items, costs, arrivals = drawn(stream, seed)
    timeline = run_timeline(Posg(stream.k, seed=seed, **options), encode_keys(items), arrivals, costs)
    known = create("FULL_KNOWLEDGE", stream.k).route(items, costs=costs)
    return Trial(
        float((timeline.finishes - arrivals).mean()),
        float((finishes(turns(stream.m, stream.k), arrivals, costs, stream.k) - arrivals).mean()),
        float((finishes(known, arrivals, costs, stream.k) - arrivals).mean()),
        timeline,
    )


def drawn(stream: Stream, seed: int) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Item, cost (ms) and arrival (ms) of each tuple."""
    items = _items(stream.z, stream.n).take(0, stream.m, seed=seed)
    values = np.linspace(1.0, stream.w_max, stream.w_n) if stream.w_n > 1 else np.array([stream.w_max])
    costs = np.random.default_rng((seed, 1)).permutation(np.resize(values, stream.n))[items]
    return items, costs, np.arange(stream.m) * (stream.provisioning * costs.mean() / stream.k)


def turns(m: int, k: int) -> NDArray[np.int32]:
    """Round robin."""
    return (np.arange(m) % k).astype(np.int32)


def finishes(
    workers: NDArray[np.int32], arrivals: NDArray[np.float64], services: NDArray[np.float64], k: int
) -> NDArray[np.float64]:
    """When each tuple is finished, ms."""
    done = np.empty(len(workers))
    serve_tuples(new_queues(len(workers), k), 0, workers, arrivals, services, done)
    return done


@cache
def _items(z: float | None, n: int) -> streams.KeyStream:
    return streams.uniform(n) if z is None else streams.zipf(z, n)
