"""The least load that a batch's busiest worker can have if each key keeps to given workers: a linear program's optimum.

The program divides each key's tuples between its workers, in fractions too, and makes the greatest load as small as
possible. By duality that is the greatest of Σ n / |A| over all sets A of workers, where the sum is over the keys that
have workers of A only: Hall's condition for fractions. ``reachable`` finds that set by Newton's method for ratios
(Dinkelbach, *On Nonlinear Fractional Programming*, 1967): it begins with the mean load as everyone's cap. While a
maximum flow leaves load over, the workers around that load are such a set A, and its ratio is the next cap.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.kernel_cache import kernel

_NONE = -1
_SEVERAL = -2


class Places:
    """The workers on which each of K keys has been so far. Memory: 4 bytes a key, and 8 a worker of a split one."""

    def __init__(self, keys: int, workers: int) -> None:
        self._workers = workers
        self._only = np.full(keys, _NONE, np.int32)  # a key's worker, if it has been on one only
        self._split = np.empty(0, np.int64)  # key · W + worker of the other keys, ascending

    def reachable(self, codes: NDArray[np.int32], chosen: NDArray[np.int32]) -> float:
        """The least greatest load of a batch, whose own places count too, over its mean load.

        Parameters
        ----------
        codes, chosen : int32[n]
            The key and the worker of each tuple.

        """
        self._split = np.union1d(self._split, _pairs(codes, chosen, self._only, self._workers))
        tuples = np.bincount(codes, minlength=len(self._only)).astype(np.float64)
        only = self._only[codes]
        fixed = np.bincount(only[only != _SEVERAL], minlength=self._workers).astype(np.float64)
        key, place = np.divmod(self._split, self._workers)
        here = tuples[key] > 0
        keys, first = np.unique(key[here], return_index=True)
        starts = np.append(first, here.sum()).astype(np.int64)
        return float(reachable(fixed, tuples[keys], starts, place[here]) * self._workers / len(codes))


@kernel
def _pairs(
    codes: NDArray[np.int32], chosen: NDArray[np.int32], only: NDArray[np.int32], workers: int
) -> NDArray[np.int64]:
    """Note a batch's places in ``only``. Returns key · W + worker for the places of the keys that have several."""
    pairs, count = np.empty(2 * len(codes), np.int64), 0
    for i in range(len(codes)):
        code = codes[i]
        if only[code] == _NONE:
            only[code] = chosen[i]
        elif only[code] != _SEVERAL and only[code] != chosen[i]:
            pairs[count] = np.int64(code) * workers + only[code]
            count += 1
            only[code] = _SEVERAL
    for i in range(len(codes)):
        if only[codes[i]] == _SEVERAL:
            pairs[count] = np.int64(codes[i]) * workers + chosen[i]
            count += 1
    return pairs[:count]


class Graph(NamedTuple):
    """Which of m keys may be at which of W workers, by p edges: those of key k begin at ``starts[k]``."""

    starts: NDArray[np.int64]  # [m + 1]
    places: NDArray[np.int64]  # [p], an edge's worker
    key: NDArray[np.int64]  # [p], an edge's key
    order: NDArray[np.int64]  # [p], the edges by worker
    firsts: NDArray[np.int64]  # [W + 1], where each worker's begin in ``order``


class Search(NamedTuple):
    """A search for a worker with room, along which other keys can make room."""

    queue: NDArray[np.int64]  # [W]
    reached: NDArray[np.bool_]  # [W]
    expanded: NDArray[np.bool_]  # [m]
    takes: NDArray[np.int64]  # [W], the edge by which load comes to this worker
    gives: NDArray[np.int64]  # [W], the same key's edge at the worker before; −1 for the key that is searched for


@kernel
def reachable(
    fixed: NDArray[np.float64], loads: NDArray[np.float64], starts: NDArray[np.int64], places: NDArray[np.int64]
) -> float:
    """The least greatest load.

    Parameters
    ----------
    fixed : float64[W]
        The load at each worker that can't be anywhere else.
    loads : float64[m]
        The load of each other key.
    starts : int64[m + 1]
        The workers of key k are ``places[starts[k] : starts[k + 1]]``, all different.
    places : int64[p]
        See ``starts``.

    """
    workers, keys = len(fixed), len(loads)
    graph = _graph(starts, places, workers)
    search = Search(
        queue=np.empty(workers, np.int64),
        reached=np.empty(workers, np.bool_),
        expanded=np.empty(keys, np.bool_),
        takes=np.empty(workers, np.int64),
        gives=np.empty(workers, np.int64),
    )
    load, left, flow = fixed.copy(), loads.copy(), np.zeros(len(places))
    cap = max(fixed.max(), (fixed.sum() + loads.sum()) / workers)
    negligible = 1e-9 * max(cap, 1.0)
    while True:
        over = 0.0
        for k in np.argsort(-loads):
            while left[k] > negligible:
                room = _room(graph, search, k, load, flow, cap - negligible)
                if room == _NONE:
                    over = max(over, _ratio(graph, search.reached, fixed, loads))
                    break
                amount = _lead(graph, search, room, min(left[k], cap - load[room]), flow)
                load[room] += amount
                left[k] -= amount
        if over <= cap + negligible:
            return cap
        cap = over


@kernel
def _graph(starts: NDArray[np.int64], places: NDArray[np.int64], workers: int) -> Graph:
    key, firsts = np.empty(len(places), np.int64), np.zeros(workers + 1, np.int64)
    for k in range(len(starts) - 1):
        key[starts[k] : starts[k + 1]] = k
    for place in places:
        firsts[place + 1] += 1
    return Graph(starts, places, key, np.argsort(places, kind="mergesort"), np.cumsum(firsts))


@kernel
def _room(
    graph: Graph, search: Search, k: int, load: NDArray[np.float64], flow: NDArray[np.float64], full: float
) -> int:
    """The nearest worker with room for a key, or −1: then the workers that are reached are full."""
    search.reached[:], search.expanded[:] = False, False
    end, room = _expand(graph, search, k, _NONE, 0, load, full)
    begin = 0
    while room == _NONE and begin < end:
        worker = search.queue[begin]
        begin += 1
        for edge in graph.order[graph.firsts[worker] : graph.firsts[worker + 1]]:
            if room == _NONE and flow[edge] > 0 and not search.expanded[graph.key[edge]]:
                end, room = _expand(graph, search, graph.key[edge], edge, end, load, full)
    return room


@kernel
def _expand(
    graph: Graph, search: Search, k: int, gives: int, end: int, load: NDArray[np.float64], full: float
) -> tuple[int, int]:
    """Reach the workers of a key, which gives load at this edge. Returns the queue's end, and one with room or −1."""
    search.expanded[k] = True
    for edge in range(graph.starts[k], graph.starts[k + 1]):
        to = graph.places[edge]
        if not search.reached[to]:
            search.reached[to], search.takes[to], search.gives[to] = True, edge, gives
            search.queue[end] = to
            end += 1
            if load[to] < full:
                return end, int(to)
    return end, _NONE


@kernel
def _lead(graph: Graph, search: Search, room: int, amount: float, flow: NDArray[np.float64]) -> float:
    """Lead up to this amount to the worker that was found. Returns how much that was."""
    at = search.gives[room]
    while at != _NONE:
        amount = min(amount, flow[at])
        at = search.gives[graph.places[at]]
    flow[search.takes[room]] += amount
    at = search.gives[room]
    while at != _NONE:
        flow[at] -= amount
        flow[search.takes[graph.places[at]]] += amount
        at = search.gives[graph.places[at]]
    return amount


@kernel
def _ratio(graph: Graph, reached: NDArray[np.bool_], fixed: NDArray[np.float64], loads: NDArray[np.float64]) -> float:
    """The load that can be at these workers only, over their number."""
    total = fixed[reached].sum()
    for k in range(len(loads)):
        if reached[graph.places[graph.starts[k] : graph.starts[k + 1]]].all():
            total += loads[k]
    return total / reached.sum()
