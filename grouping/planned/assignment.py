"""Assigns a batch to workers, compiled: keys keep their replicas, and get others only if load doesn't fit.

Keys and workers are the two sides of a flow network. A key's replicas are its edges, each with an amount. A worker's
load stays within its cap. Load without room follows an augmenting path, on which other keys make room by shifting load
between their replicas: the method of Ford and Fulkerson, 1956, with shortest paths, as in Edmonds and Karp, 1972.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.hashing import draw_for_key
from unskew.grouping.kernel_cache import kernel

_NONE = -1
#: Positions in ``FlowNetwork.size``: the number of edges.
_EDGES = 0
#: Keys of a first batch above a 16th of the mean cap are packed anew. So at most 16·W leave their home.
_PACKED = 16


class ReplicaAssignment(NamedTuple):
    """The load of the keys that have or get several replicas, or get another one."""

    item: NDArray[np.int64]  #: int64[e]: The key. Ascending.
    worker: NDArray[np.int32]  #: int32[e]: One of the key's replicas, in the order of filling.
    amount: NDArray[np.float64]  #: float64[e]: The load that goes there, which may be 0.

    def where(self, which: NDArray[np.bool_]) -> "ReplicaAssignment":
        """Select rows, bool[e]."""
        return ReplicaAssignment(self.item[which], self.worker[which], self.amount[which])

    def receives_load(self, loads: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which rows get tuples, bool[e]. Keys whose tuples all cost 0 go to their first replica."""
        first = np.append(True, self.item[1:] != self.item[:-1])[: len(self.item)]
        return (self.amount > 0) | (first & (loads[self.item] == 0))


class AllowedWorkers(NamedTuple):
    """The workers that m keys may have: ``most`` of the W, or all."""

    #: uint64[m]: The bucket of each key. All its keys may have the same workers: its home, and others drawn by hash
    #: functions.
    buckets: NDArray[np.uint64]
    homes: NDArray[np.int32]  #: int32[m]: The homes.
    number: np.uint64  #: uint64: The first of these functions.
    most: int  #: How many workers a key may have.


class FlowNetwork(NamedTuple):
    """The n keys that may be on several workers, with up to E replicas."""

    key: NDArray[np.int32]  # [E], an edge's key, in [0, n)
    worker: NDArray[np.int32]  # [E], its worker
    amount: NDArray[np.float64]  # [E], how much of the key's load goes there
    after_of_key: NDArray[np.int32]  # [E], the key's next edge, or −1
    after_of_worker: NDArray[np.int32]  # [E], the worker's next edge, or −1
    of_key: NDArray[np.int32]  # [n], a key's first edge, or −1
    last_of_key: NDArray[np.int32]  # [n]
    of_worker: NDArray[np.int32]  # [W]
    unmet: NDArray[np.float64]  # [n], a key's unassigned load
    load: NDArray[np.float64]  # [W], each worker's load so far, including other keys'
    caps: NDArray[np.float64]  # [W]
    size: NDArray[np.int64]  # [1]


class PathSearch(NamedTuple):
    """A search for a worker with room."""

    queue: NDArray[np.int32]  # [W]
    seen: NDArray[np.bool_]  # [W]
    seen_key: NDArray[np.bool_]  # [n]
    gives: NDArray[np.int32]  # [W], the edge whose key makes room, or −1: the searching key itself comes
    takes: NDArray[np.int32]  # [W], that key's edge to this worker


@kernel
def assign_batch(
    loads: NDArray[np.float64],
    buckets: int,
    starts: NDArray[np.int64],
    replicas: NDArray[np.int32],
    caps: NDArray[np.float64],
    afresh: bool,
    allowed: AllowedWorkers,
) -> ReplicaAssignment:
    """Assign a batch's load to workers within their caps, adding replicas only if the load doesn't fit otherwise.

    1. Keys with one replica are put there.
    2. If that exceeds a worker's cap, its greatest keys are taken off again until the rest fits, and after all of them
       its greatest buckets.
    3. These keys, and those with several replicas, fill their replicas, earlier ones first. Augmenting paths then make
       room for what is left.
    4. Keys with load left, the greatest first, get one more replica: the worker with the most room. A key with only one
       replica moves there whole if it fits, and its old replica comes second. After each new replica augmenting paths
       are tried first.

    If a key may have only some workers, new replicas are at these. A key with more load than their caps gets them all,
    before step 2, in proportion to their caps. What else doesn't fit at a key's workers is put at the one with the most
    room.

    If ``afresh``, the keys of step 2 give up their replicas, and each is put whole where it fits. If any is cut, the
    same is tried with all greater keys taken off in step 2. The assignment with fewer replicas is the answer.

    Parameters
    ----------
    loads : float64[m]
        The load of each key.
    buckets : int
        The number of buckets, which are the first keys: each stands for several keys counted together.
    starts : int64[m + 1]
        The workers of key k are ``replicas[starts[k] : starts[k + 1]]``: at least one, and all different.
    replicas : int32[p]
        See ``starts``.
    caps : float64[W]
        The workers' caps, with Σ caps ≥ Σ loads.
    afresh : bool
        Whether nothing was routed before.
    allowed : AllowedWorkers
        The workers that the keys may have.

    Notes
    -----
    If loads and caps are integers, all amounts are. Time O(m + p), and O(p' + W) for each new replica and each
    augmenting path, where p' is the number of replicas in step 3.

    """
    kept = _assign_above(loads, buckets, starts, replicas, caps, afresh, allowed, np.inf)
    if not afresh or not _count_extra_replicas(kept):
        return kept
    # What doesn't exceed the mean room left at the end surely fits whole.
    heavy = max((caps.sum() - loads.sum()) / len(caps), caps.mean() / _PACKED)
    packed = _assign_above(loads, buckets, starts, replicas, caps, afresh, allowed, heavy)
    return packed if _count_extra_replicas(packed) < _count_extra_replicas(kept) else kept


@kernel
def _count_extra_replicas(assigned: ReplicaAssignment) -> int:
    """The number of replicas besides each key's first."""
    return (assigned.item[1:] == assigned.item[:-1]).sum()


@kernel
def _assign_above(
    loads: NDArray[np.float64],
    buckets: int,
    starts: NDArray[np.int64],
    replicas: NDArray[np.int32],
    caps: NDArray[np.float64],
    afresh: bool,
    allowed: AllowedWorkers,
    heavy: float,
) -> ReplicaAssignment:
    """``assign_batch``, with keys above ``heavy`` taken off in any case."""
    m, w_all = len(loads), len(caps)
    load = np.zeros(w_all)
    for k in range(m):
        if starts[k + 1] - starts[k] == 1:
            load[replicas[starts[k]]] += loads[k]
    deck, own = np.arange(w_all - 1).astype(np.int32), np.empty(allowed.most, np.int32)
    excessive = _find_excessive(loads, caps, load, allowed, deck, own)
    items = _select_splittable(loads, buckets, starts, replicas, caps, load, heavy, excessive)
    net = _build_network(items, loads, starts, replicas, load, caps, afresh, int(excessive.sum()) * len(own))
    _spread_excessive(net, items, loads, excessive, allowed, deck, own)
    for i in _order_by_replicas(net):
        _fill_replicas(net, i)
    search = PathSearch(
        queue=np.empty(w_all, np.int32),
        seen=np.empty(w_all, np.bool_),
        seen_key=np.empty(len(items), np.bool_),
        gives=np.empty(w_all, np.int32),
        takes=np.empty(w_all, np.int32),
    )
    whole = loads[items]
    # The most that rounding leaves of costs, which aren't integers.
    negligible = 1e-9 * caps.mean()
    for i in np.argsort(-whole, kind="mergesort"):
        while net.unmet[i] > negligible:
            room = _find_room(net, search, i)
            if room != _NONE:
                _shift_load(net, search, i, room)
                continue
            emptiest = _find_emptiest(net, allowed, int(items[i]), deck, own)
            gap = caps[emptiest] - load[emptiest]
            if gap >= whole[i] and net.of_key[i] != _NONE and net.of_key[i] == net.last_of_key[i]:
                _move_key(net, i, emptiest)
                continue
            edge = _get_edge(net, i, emptiest)
            # (If a key may have all workers, only rounding can leave no gap.)
            moved = min(net.unmet[i], gap) if gap > negligible else net.unmet[i]
            net.amount[edge] += moved
            load[emptiest] += moved
            net.unmet[i] -= moved
    return _list_edges(net, items)


@kernel
def _list_workers(allowed: AllowedWorkers, k: int, deck: NDArray[np.int32], own: NDArray[np.int32]) -> None:
    """The workers that a key may have. ``deck`` is 0, …, W − 2, for the workers other than its home."""
    home = allowed.homes[k]
    draw_for_key(allowed.buckets[k], allowed.number, deck, own[1:])
    for place in range(1, len(own)):
        own[place] += own[place] >= home
    own[0] = home


@kernel
def _find_emptiest(
    net: FlowNetwork, allowed: AllowedWorkers, k: int, deck: NDArray[np.int32], own: NDArray[np.int32]
) -> int:
    """Of the workers that a key may have, the one with the most room."""
    if allowed.most >= len(net.caps):
        return int(np.argmax(net.caps - net.load))
    _list_workers(allowed, k, deck, own)
    return int(own[np.argmax(net.caps[own] - net.load[own])])


@kernel
def _find_excessive(
    loads: NDArray[np.float64],
    caps: NDArray[np.float64],
    load: NDArray[np.float64],
    allowed: AllowedWorkers,
    deck: NDArray[np.int32],
    own: NDArray[np.int32],
) -> NDArray[np.bool_]:
    """Which keys exceed the caps of all workers that they may have, bool[m]. Adds their load to these workers'
    ``load``.

    Keys below the mean cap don't count: they would get all their workers only because these have no room.
    """
    excessive = np.zeros(len(loads), np.bool_)
    if allowed.most < len(caps):
        mean = caps.mean()
        for k in range(len(loads)):
            if loads[k] <= mean:
                continue
            _list_workers(allowed, k, deck, own)
            excessive[k] = loads[k] > caps[own].sum()
            if excessive[k]:
                load[own] += _divide_load(loads[k], caps[own])
    return excessive


@kernel
def _spread_excessive(
    net: FlowNetwork,
    items: NDArray[np.int64],
    loads: NDArray[np.float64],
    excessive: NDArray[np.bool_],
    allowed: AllowedWorkers,
    deck: NDArray[np.int32],
    own: NDArray[np.int32],
) -> None:
    """Give the excessive keys, whose load is already counted, all workers that they may have."""
    for i in range(len(items)):
        k = int(items[i])
        if excessive[k]:
            _list_workers(allowed, k, deck, own)
            parts = _divide_load(float(loads[k]), net.caps[own])
            for place in range(len(own)):
                net.amount[_get_edge(net, i, own[place])] = parts[place]
            net.unmet[i] = 0


@kernel
def _divide_load(load: float, caps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide a load in proportion to workers' caps, or equally if all are 0; to integers if the load is one."""
    total = caps.sum()
    ends = np.cumsum(caps / total if total > 0 else np.full(len(caps), 1 / len(caps))) * load
    if load == np.floor(load):
        ends = np.floor(ends + 0.5)
    ends[-1] = load
    parts = ends.copy()
    parts[1:] -= ends[:-1]
    return parts


@kernel
def _select_splittable(
    loads: NDArray[np.float64],
    buckets: int,
    starts: NDArray[np.int64],
    replicas: NDArray[np.int32],
    caps: NDArray[np.float64],
    load: NDArray[np.float64],
    heavy: float,
    excessive: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """Step 2: the keys that may have several replicas, ascending. Subtracts their load from ``load``."""
    m, workers = len(loads), len(caps)
    taken = _mark_splittable(loads, buckets, starts, replicas, load, heavy, excessive)
    over = load > caps
    ends = np.zeros(workers + 1, np.int64)
    for k in range(m):
        if not taken[k] and over[replicas[starts[k]]]:
            ends[replicas[starts[k]] + 1] += 1
    ends = np.cumsum(ends)
    here, fill = np.empty(ends[-1], np.int64), ends.copy()
    for k in range(m):
        if not taken[k] and over[replicas[starts[k]]]:
            here[fill[replicas[starts[k]]]] = k
            fill[replicas[starts[k]]] += 1
    for w in np.flatnonzero(over):
        own = here[ends[w] : ends[w + 1]]
        first = np.searchsorted(own, buckets)
        for part in (own[first:], own[:first]):
            for i in np.argsort(-loads[part], kind="mergesort"):
                if load[w] <= caps[w]:
                    break
                taken[part[i]] = True
                load[w] -= loads[part[i]]
    return np.flatnonzero(taken)


@kernel
def _mark_splittable(
    loads: NDArray[np.float64],
    buckets: int,
    starts: NDArray[np.int64],
    replicas: NDArray[np.int32],
    load: NDArray[np.float64],
    heavy: float,
    excessive: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Which keys are taken off in any case, bool[m]: those with several replicas, and heavy or excessive ones."""
    taken = np.empty(len(loads), np.bool_)
    for k in range(len(loads)):
        one = starts[k + 1] - starts[k] == 1
        taken[k] = not one or excessive[k] or (k >= buckets and loads[k] > heavy)
        if taken[k] and one:
            load[replicas[starts[k]]] -= loads[k]
    return taken


@kernel
def _build_network(
    items: NDArray[np.int64],
    loads: NDArray[np.float64],
    starts: NDArray[np.int64],
    replicas: NDArray[np.int32],
    load: NDArray[np.float64],
    caps: NDArray[np.float64],
    afresh: bool,
    more: int,
) -> FlowNetwork:
    n, workers = len(items), len(caps)
    edges = 0
    for i in range(n):
        edges += starts[items[i] + 1] - starts[items[i]]
    # New replicas: one per key that is then complete, or one that fills its worker (and one per key by rounding). A
    # worker can be filled again after a key has moved away from it, which a key does once. What doesn't fit at a key's
    # workers may take one more; and ``more`` is for excessive keys.
    edges += 4 * n + workers + more
    net = FlowNetwork(
        key=np.empty(edges, np.int32),
        worker=np.empty(edges, np.int32),
        amount=np.zeros(edges),
        after_of_key=np.empty(edges, np.int32),
        after_of_worker=np.empty(edges, np.int32),
        of_key=np.full(n, _NONE, np.int32),
        last_of_key=np.full(n, _NONE, np.int32),
        of_worker=np.full(workers, _NONE, np.int32),
        unmet=np.empty(n),
        load=load,
        caps=caps,
        size=np.zeros(1, np.int64),
    )
    for i in range(n):
        k = items[i]
        net.unmet[i] = loads[k]
        if not afresh or starts[k + 1] - starts[k] > 1:
            for p in range(starts[k], starts[k + 1]):
                _add_replica(net, i, replicas[p])
    return net


@kernel
def _add_replica(net: FlowNetwork, i: int, worker: int) -> int:
    """Give a key one more replica, its last. Return the new edge, with amount 0."""
    edge: int = net.size[_EDGES]
    net.size[_EDGES] += 1
    net.key[edge], net.worker[edge] = i, worker
    net.after_of_key[edge] = _NONE
    if net.of_key[i] == _NONE:
        net.of_key[i] = edge
    else:
        net.after_of_key[net.last_of_key[i]] = edge
    net.last_of_key[i] = edge
    net.after_of_worker[edge] = net.of_worker[worker]
    net.of_worker[worker] = edge
    return edge


@kernel
def _get_edge(net: FlowNetwork, i: int, worker: int) -> int:
    """A key's edge to a worker, new if necessary."""
    edge: int = net.of_key[i]
    while edge != _NONE:
        if net.worker[edge] == worker:
            return edge
        edge = net.after_of_key[edge]
    return _add_replica(net, i, worker)


@kernel
def _move_key(net: FlowNetwork, i: int, worker: int) -> None:
    """Move all load of a key with one replica to another worker, which becomes its first."""
    old = net.of_key[i]
    net.load[net.worker[old]] -= net.amount[old]
    net.unmet[i] += net.amount[old]
    net.amount[old] = 0
    new = _add_replica(net, i, worker)
    net.of_key[i], net.last_of_key[i] = new, old
    net.after_of_key[new], net.after_of_key[old] = old, _NONE
    net.amount[new] = net.unmet[i]
    net.load[worker] += net.unmet[i]
    net.unmet[i] = 0


@kernel
def _order_by_replicas(net: FlowNetwork) -> NDArray[np.int64]:
    """The keys, those with the fewest replicas, and so the least choice, first."""
    number = np.zeros(len(net.unmet), np.int64)
    for edge in range(net.size[_EDGES]):
        number[net.key[edge]] += 1
    return np.argsort(number, kind="mergesort")


@kernel
def _fill_replicas(net: FlowNetwork, i: int) -> None:
    """Fill a key's replicas in order."""
    edge: int = net.of_key[i]
    while edge != _NONE and net.unmet[i] > 0:
        worker = net.worker[edge]
        moved = min(net.unmet[i], net.caps[worker] - net.load[worker])
        if moved > 0:
            net.amount[edge] += moved
            net.load[worker] += moved
            net.unmet[i] -= moved
        edge = net.after_of_key[edge]


@kernel
def _find_room(net: FlowNetwork, search: PathSearch, i: int) -> int:
    """The worker at the end of a shortest augmenting path from a key, or −1 if the keys seen have no room."""
    search.seen[:] = False
    search.seen_key[:] = False
    search.seen_key[i] = True
    last = _visit_workers(net, search, i, _NONE, 0)
    first = 0
    while first < last:
        worker: int = search.queue[first]
        first += 1
        if net.load[worker] < net.caps[worker]:
            return worker
        edge: int = net.of_worker[worker]
        while edge != _NONE:
            other = net.key[edge]
            if net.amount[edge] > 0 and not search.seen_key[other]:
                search.seen_key[other] = True
                last = _visit_workers(net, search, other, edge, last)
            edge = net.after_of_worker[edge]
    return _NONE


@kernel
def _visit_workers(net: FlowNetwork, search: PathSearch, i: int, gives: int, last: int) -> int:
    """Queue a key's unseen workers. Return the new end of the queue."""
    edge: int = net.of_key[i]
    while edge != _NONE:
        worker = net.worker[edge]
        if not search.seen[worker]:
            search.seen[worker] = True
            search.gives[worker], search.takes[worker] = gives, edge
            search.queue[last] = worker
            last += 1
        edge = net.after_of_key[edge]
    return last


@kernel
def _shift_load(net: FlowNetwork, search: PathSearch, i: int, room: int) -> None:
    """Shift as much as possible along the path found."""
    moved = min(net.unmet[i], net.caps[room] - net.load[room])
    worker = room
    while search.gives[worker] != _NONE:
        moved = min(moved, net.amount[search.gives[worker]])
        worker = net.worker[search.gives[worker]]
    net.load[room] += moved
    net.unmet[i] -= moved
    worker = room
    while search.gives[worker] != _NONE:
        net.amount[search.takes[worker]] += moved
        net.amount[search.gives[worker]] -= moved
        worker = net.worker[search.gives[worker]]
    net.amount[search.takes[worker]] += moved


@kernel
def _list_edges(net: FlowNetwork, items: NDArray[np.int64]) -> ReplicaAssignment:
    edges = net.size[_EDGES]
    item, worker, amount = np.empty(edges, np.int64), np.empty(edges, np.int32), np.empty(edges)
    row = 0
    for i in range(len(items)):
        edge = net.of_key[i]
        while edge != _NONE:
            item[row], worker[row], amount[row] = items[i], net.worker[edge], net.amount[edge]
            row += 1
            edge = net.after_of_key[edge]
    return ReplicaAssignment(item, worker, amount)
