"""BOUNDED_LOAD's compiled routing: a whole key goes to its one worker, a split key to one of its workers with room.

Time is the cost that the source has sent so far. In a unit of time a worker with share s of all workers' speed does (1
+ slack) · s units of cost, a little more than its share, so that the workers together keep up. ``AHEAD`` is the time at
which a worker will have done all that it has got. It is ahead by that time less the source's time, which says how full
it is.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.bounded.replicas import (
    ALL,
    FIRST,
    KEYS,
    NONE,
    SEEN,
    SPAN,
    SPARE,
    ReplicaTable,
    add_key,
    add_worker,
    forget_idle_replicas,
    mark_use,
)
from unskew.grouping.hashing import draw_for_key, mix_hash, reduce_to_range
from unskew.grouping.kernel_cache import kernel
from unskew.grouping.slots import find_within

# How far a worker may be ahead, in windows, or in tuples of a worker if that is more: to be open to a key that isn't on
# it yet, to take a whole key's tuple, and to take any tuple. A split key's limit is between the first two.
OPEN, WHOLE, FULL = 0.01, 0.06, 0.08
FEW_OPEN, FEW_WHOLE, FEW_FULL = 1.0, 6.5, 8.0
_VOTES = 2  # by which a key must lead at a worker before the key is split
_SHORT = 8  # all workers of a key with at most so many are looked at for each tuple
_MOST = 64  # the most workers of a key that are looked at for a tuple
LOOKS = 16  # workers of a key's hash functions (the first is its home); as many others are looked at in turn
_NEWCOMER = 0.3  # the load that a key is assumed to bring to a joining worker, in fair shares
_ROOMY = 0.9  # a worker with a recent load below so many fair shares is taken without looking further
_FAR = 2.0**32  # tuples of the mean cost after the origin of time, at which their costs begin to be rounded off
_AGREED = 0.4  # with several sources, a worker ahead by less than this part of the full limit is open to replicas
# Positions in `tally`: tuples so far; last worker looked at in turn; whether new keys' workers are chosen.
TUPLES, TURN, CHOOSING = 0, 1, 2
#: So many last parts of the stream are half a window together. Their mean cost is the limits' unit.
PARTS = 16
#: Positions in ``costs_so_far`` after the parts': the cost of the unfinished part, of all parts, and the present unit.
PRESENT, TOGETHER, UNIT = PARTS, PARTS + 1, PARTS + 2


class BoundedLoadParameters(NamedTuple):
    """The kernel's parameters."""

    number: np.uint64  # the hash function
    pace: float  # time of a unit of cost at a worker of mean speed
    window: int  # tuples of this source
    part: int  # tuples of this source in one of the PARTS
    period: int  # this source's tuples after which unused replicas and keys are forgotten
    most: int  # the most workers of a key
    chosen: int  # the most keys whose first worker is chosen when they are new; 0: every key starts at home


class Loads(NamedTuple):
    """The W workers' loads, and the keys that lead there. Memory: 56 bytes a worker."""

    load: NDArray[np.float64]  # [W, 4], see below
    rival: NDArray[np.uint64]  # [W], the leading key among those that the worker had no room for
    votes: NDArray[np.int64]  # [W], by how many tuples the rival leads
    keys: NDArray[np.int64]  # [W], remembered keys with the worker as their first


#: Columns of ``Loads.load``. AHEAD: the time at which the worker will have done all that it has got. PACE: its time for
#: a unit of cost, 1 / ((1 + slack) · its share of the speed). PASSING: the cost that it got since its recent load was
#: estimated. RECENT: that load, in fair shares. Each worker's row is in one cache line.
AHEAD, PACE, PASSING, RECENT = 0, 1, 2, 3


def make_idle_loads(shares: NDArray[np.float64], slack: float) -> Loads:
    """The loads of idle workers. ``shares`` [W] are their shares of all workers' speed, with sum 1."""
    load = np.zeros((len(shares), 4))
    load[:, PACE] = 1 / ((1 + slack) * shares)
    counts = [np.zeros(len(shares), np.int64) for _ in range(2)]
    return Loads(load, np.zeros(len(shares), np.uint64), *counts)


def part_size(window: int, workers: int) -> int:
    """The tuples of a part: a PARTS-th of half a window, or of 8 tuples a worker (a full limit) if that is more."""
    return max(-(-window // (2 * PARTS)), -(-int(FEW_FULL) * workers // PARTS))


@kernel
def route_within_bounds(  # noqa: C901, PLR0912, PLR0915  written out: a call would count references to each array
    codes: NDArray[np.int32],
    hashes: NDArray[np.uint64],
    homes: NDArray[np.int32],
    costs: NDArray[np.float64],
    rules: BoundedLoadParameters,
    loads: Loads,
    replicas: ReplicaTable,
    clock: NDArray[np.float64],
    tally: NDArray[np.int64],
    costs_so_far: NDArray[np.float64],
) -> NDArray[np.int32]:
    """Route tuple by tuple. ``costs`` is empty if every tuple costs 1.

    1. A key's first worker is its home, or the one chosen when the key was new.
    2. A whole key goes to its first worker while this isn't ahead by more than ``WHOLE``. Beyond that each such tuple
       is a vote for splitting its key. Beyond ``FULL`` the key that comes is split.
    3. A split key goes to the first of its workers with room. If none has room, one more worker joins, until the key
       has all W, or as many as a key may have. If these are fewer than W, they are the key's first candidates, and what
       exceeds their limits goes there, too (``next_within_cap``).
    4. When tuples have become cheaper and the limits fall, workers are less ahead in the same ratio, but by no more
       than the full limit falls. Otherwise a worker within an old limit would get nothing until it is within the new.
    5. When it is so late that costs added to the time would be rounded off, time starts anew.
    6. When three of four nodes for replicas are in use, only the vote's winner is split. A tuple of another key then
       goes to the next worker with room, and its key stays whole.
    """
    routes = np.empty(len(codes), np.int32)
    # Out of the named tuples once (see unskew.grouping.slots).
    load, known, first = loads.load, replicas.key, replicas.first
    length, seen = replicas.length, replicas.seen
    table, in_use = replicas.table, replicas.size[SPAN]
    cursor, since, head = replicas.cursor, replicas.since, replicas.head
    joined, following, used, reaches = replicas.worker, replicas.following, replicas.used, replicas.reach
    deck, own = np.arange(len(load)).astype(np.int32), np.empty(rules.most, np.int32)
    cost = 1.0
    now: float = clock[0]
    tuples: int = tally[TUPLES]
    # Periodic work depends on the tuples so far, not on the cuts between calls.
    span = max(rules.window // 10, 10 * len(load))
    to_estimate = span - tuples % span
    to_tidy = rules.period - tuples % rules.period
    counted = min(tuples // rules.part, PARTS) * rules.part + tuples % rules.part
    unit: float = costs_so_far[UNIT] if len(costs) else 1.0
    opening, whole, full = compute_limits(rules, unit)
    for i in range(len(codes)):
        code: int = codes[i]
        key: np.uint64 = hashes[code]
        tuples += 1
        # Time advances by the tuple's cost. If the mean cost has risen, the limits rise at once; they fall only at the
        # end of a part (below).
        if len(costs):
            cost = costs[i]
            now += cost
            counted += 1
            costs_so_far[PRESENT] += cost
            costs_so_far[TOGETHER] += cost
            if costs_so_far[TOGETHER] > unit * counted:
                unit = costs_so_far[TOGETHER] / counted
                opening, whole, full = compute_limits(rules, unit)
        else:
            now += 1.0
        # Step 1: the key's first worker. ``in_use`` follows each change of the keys, with which the table may grow or
        # shrink.
        slot = find_within(table, in_use, known, key)
        if slot < 0 and tally[CHOOSING] and rules.chosen:
            slot = _choose_first(key, homes[code], rules, loads, replicas, tally, deck, own)
            in_use = replicas.size[SPAN]
        worker: int = homes[code]
        is_split = False
        if slot >= 0:
            worker = first[slot]
            seen[slot] = True
            is_split = length[slot] > 1
        # Step 2: is this worker too far ahead for a whole key? Then the tuple is a vote, also when no replica is left
        # (so ``spare`` is asked after the vote). The vote's winner is split; beyond the full limit, this key is, if
        # more than a quarter of the nodes is free (step 6). Else the tuple alone goes elsewhere, if the worker is full,
        # or stays.
        if not is_split and rules.most > 1 and load[worker, AHEAD] - now > whole:
            spare: int = replicas.size[SPARE] if slot >= 0 or replicas.size[KEYS] < len(known) else 0
            is_full = load[worker, AHEAD] - now > full
            if (vote_to_split(key, worker, loads) and spare) or (is_full and 4 * spare > len(joined)):
                if slot < 0:
                    slot = add_key(replicas, key, worker)
                    in_use = replicas.size[SPAN]
                    loads.keys[worker] += 1
                is_split = True
            elif is_full and rules.most < len(load):
                worker = next_within_cap(key, now, opening, whole, full, False, rules, loads, deck, own)
            elif is_full:
                worker = next_worker(key, now, opening, whole, full, False, rules, loads, tally)
        # Step 3. A key that has just been split has only its first worker, which has no room: another one joins.
        if is_split:
            # Of a few workers: the first that is open to all keys, else the least ahead. Of many: the first with room,
            # from the one that got the key's last tuple on; after as many tuples as the key has workers, the search
            # restarts at its first worker.
            many: int = length[slot]
            reach = opening + (whole - opening) * reaches[slot]
            enough = opening
            node = FIRST
            if many > _SHORT:
                enough = reach
                since[slot] += 1
                if since[slot] <= many:
                    node = cursor[slot]
                else:
                    since[slot] = 1
            best = FIRST
            worker = -1
            for _ in range(min(many, _MOST)):
                candidate = int(first[slot] if node == FIRST else joined[node])
                level = load[candidate, AHEAD] - now
                if level <= reach:
                    best, worker, reach = node, candidate, level
                    if level <= enough:
                        break
                node = head[slot] if node == FIRST else following[node]
            # A worker with room: of many, the next search begins at it, and its replica is in use. None with room: one
            # more joins. Of the few that a capped key may have, the chosen one may be on the key already.
            if worker >= 0:
                cursor[slot] = best
                if best != FIRST:
                    used[best] = True
            elif rules.most < len(load):
                worker = next_within_cap(key, now, opening, reach, full, True, rules, loads, deck, own)
                if not mark_use(replicas, slot, worker):
                    add_worker(replicas, slot, worker)
            else:
                worker = next_worker(key, now, opening, reach, full, True, rules, loads, tally)
                if many < len(load):
                    add_worker(replicas, slot, worker)
        # The tuple is routed. An idle worker begins now: idle time isn't saved up.
        load[worker, AHEAD] = max(load[worker, AHEAD], now) + cost * load[worker, PACE]
        load[worker, PASSING] += cost
        routes[i] = worker
        # Step 4: at the end of a part the oldest one no longer counts, and limits and levels may fall.
        if len(costs) and tuples % rules.part == 0:
            counted = end_part(rules, tuples, costs_so_far)
            mean = costs_so_far[TOGETHER] / counted
            if mean < unit:
                before, unit = full, mean
                opening, whole, full = compute_limits(rules, unit)
                for w in range(len(load)):
                    load[w, AHEAD] -= (before - full) * min(max((load[w, AHEAD] - now) / before, 0.0), 1.0)
            # Step 5: a new origin of time, with the same levels.
            if now > _FAR * unit:
                for w in range(len(load)):
                    load[w, AHEAD] = max(load[w, AHEAD] - now, 0.0)
                now = 0.0
        # Now and then: estimate recent loads, for choosing joining workers; forget unused replicas.
        to_estimate -= 1
        if to_estimate == 0:
            estimate_loads(loads, rules)
            to_estimate = span
        to_tidy -= 1
        if to_tidy == 0:
            _forget_idle_keys(rules, loads, replicas, tally)
            in_use = replicas.size[SPAN]
            to_tidy = rules.period
    clock[0] = now
    tally[TUPLES] = tuples
    if len(costs):
        costs_so_far[UNIT] = unit
    return routes


@kernel
def end_part(rules: BoundedLoadParameters, tuples: int, costs_so_far: NDArray[np.float64]) -> int:
    """End a part of the stream, which replaces the oldest of the last PARTS. Return how many tuples these have.

    The sum is computed anew, so that rounding errors don't add up.
    """
    ended = tuples // rules.part
    costs_so_far[(ended - 1) % PARTS] = costs_so_far[PRESENT]
    costs_so_far[PRESENT] = 0.0
    total = 0.0
    for part in range(PARTS):
        total += costs_so_far[part]
    costs_so_far[TOGETHER] = total
    return int(min(ended, PARTS) * rules.part)


@kernel
def _choose_first(
    key: np.uint64,
    home: int,
    rules: BoundedLoadParameters,
    loads: Loads,
    replicas: ReplicaTable,
    tally: NDArray[np.int64],
    deck: NDArray[np.int32],
    own: NDArray[np.int32],
) -> int:
    """Choose a new key's first worker and remember the key, if there is room. Return its slot, or −1.

    It is the key's home if that has at most its share of keys; else, of the workers of the key's hash functions, the
    one with the fewest keys for its speed. If a key may have fewer than W workers, it is one of those.
    """
    if replicas.size[KEYS] >= rules.chosen:
        tally[CHOOSING] = 0
        return -1
    best: int = home
    fewest = loads.keys[home] * loads.load[home, PACE]
    if fewest > replicas.size[KEYS] * rules.pace / len(loads.keys):
        limited = rules.most < len(loads.keys)
        if limited:
            draw_for_key(key, rules.number, deck, own)
        for look in range(1, min(LOOKS, rules.most) if limited else LOOKS):
            if limited:
                worker = int(own[look])
            else:
                worker = int(reduce_to_range(mix_hash(key, rules.number + np.uint64(look)), len(loads.keys)))
            if loads.keys[worker] * loads.load[worker, PACE] < fewest:
                best, fewest = worker, loads.keys[worker] * loads.load[worker, PACE]
    loads.keys[best] += 1
    return add_key(replicas, key, best)


@kernel
def _forget_idle_keys(
    rules: BoundedLoadParameters, loads: Loads, replicas: ReplicaTable, tally: NDArray[np.int64]
) -> None:
    """Forget the replicas not used for a period, and keys of which nothing need be remembered.

    All keys whose first worker was chosen stay while there is room for more; later only those seen since the last time.
    When few are left, new keys' workers are chosen again.
    """
    choosing = rules.chosen > 0 and tally[CHOOSING]
    forget_idle_replicas(replicas, ALL if choosing else SEEN if rules.chosen else NONE)
    loads.keys[:] = 0
    for slot in range(replicas.size[KEYS]):
        loads.keys[replicas.first[slot]] += 1
    if replicas.size[KEYS] <= rules.chosen // 16:
        tally[CHOOSING] = 1


@kernel
def compute_limits(rules: BoundedLoadParameters, unit: float) -> tuple[float, float, float]:
    """The limits of being ahead: to be open, for a whole key, and for any tuple. ``unit`` is the mean cost."""
    window = unit * rules.window
    worker = unit * rules.pace
    return (
        max(OPEN * window, FEW_OPEN * worker),
        max(WHOLE * window, FEW_WHOLE * worker),
        max(FULL * window, FEW_FULL * worker),
    )


@kernel
def vote_to_split(key: np.uint64, worker: int, loads: Loads) -> bool:
    """Vote for splitting a key at a worker that has no room for it. Return True if the key has won.

    In Boyer and Moore's vote, a key with most of the tuples there leads in the end.
    """
    if loads.rival[worker] == key:
        loads.votes[worker] += 1
        if loads.votes[worker] >= _VOTES:
            loads.votes[worker] = 0
            return True
    elif loads.votes[worker] > 0:
        loads.votes[worker] -= 1
    else:
        loads.rival[worker] = key
        loads.votes[worker] = 1
    return False


@kernel
def estimate_loads(loads: Loads, rules: BoundedLoadParameters) -> None:
    """Estimate each worker's recent load: 1/4 of its load since the last estimate, and 3/4 of that estimate."""
    load = loads.load
    total = load[:, PASSING].sum()
    for worker in range(len(load)):
        share = load[worker, PASSING] / total * load[worker, PACE] / rules.pace * len(load) if total > 0 else 0.0
        load[worker, RECENT] += (share - load[worker, RECENT]) / 4
        load[worker, PASSING] = 0.0


@kernel
def next_worker(
    key: np.uint64,
    now: float,
    opening: float,
    reach: float,
    full: float,
    stays: bool,
    rules: BoundedLoadParameters,
    loads: Loads,
    tally: NDArray[np.int64],
) -> int:
    """The worker for a tuple whose key's workers have no room.

    Candidates are first the workers of the key's hash functions, in order, and then other workers in turn. A worker is
    open if it is ahead by at most ``opening``.

    * The worker joins the key (``stays``), and this is the only source: the open candidate with the least recent load.
    * The worker joins the key, and there are more sources: the first open candidate. Then sources agree as long as most
      of the first candidates are open. A candidate beyond the key's ``reach`` isn't open here, because it would have no
      room for the key's next tuple.
    * Only the tuple goes there: the first open candidate.
    * No candidate is open: the least ahead, if it isn't full. Otherwise any worker that isn't full.
    """
    best = lowest = -1
    agree = stays and rules.chosen == 0
    if agree:
        opening = min(_AGREED * full, reach)
    least = level = np.inf
    for look in range(1, 2 * LOOKS):
        if look == LOOKS and least < _ROOMY:
            break
        if look < LOOKS:
            worker = int(reduce_to_range(mix_hash(key, rules.number + np.uint64(look)), len(loads.load)))
        else:
            worker = _next_in_turn(tally, len(loads.load))
        if loads.load[worker, AHEAD] - now < level:
            lowest, level = worker, loads.load[worker, AHEAD] - now
        if loads.load[worker, AHEAD] - now <= opening and loads.load[worker, RECENT] < least:
            best, least = worker, loads.load[worker, RECENT]
            if not stays or agree or (look >= LOOKS and least < _ROOMY):
                break
    if best < 0:
        return lowest if level <= full else _next_with_room(now, full, loads, tally)
    if stays:
        loads.load[best, RECENT] += _NEWCOMER
    return best


@kernel
def next_within_cap(
    key: np.uint64,
    now: float,
    opening: float,
    reach: float,
    full: float,
    stays: bool,
    rules: BoundedLoadParameters,
    loads: Loads,
    deck: NDArray[np.int32],
    own: NDArray[np.int32],
) -> int:
    """As ``next_worker``, if a key may have fewer than W workers: its first candidates (``draw_candidates``).

    If none of these is open, it is the least ahead, even if that is full. ``deck`` [W] is as for ``draw_for_key``, and
    ``own`` has room for each worker that a key may have.
    """
    agree = stays and rules.chosen == 0
    if agree:
        opening = min(_AGREED * full, reach)
    best = lowest = -1
    least = level = np.inf
    draw_for_key(key, rules.number, deck, own)
    for look in range(rules.most):
        worker = int(own[look])
        ahead = loads.load[worker, AHEAD] - now
        if ahead < level:
            lowest, level = worker, ahead
        if ahead <= opening and loads.load[worker, RECENT] < least:
            best, least = worker, loads.load[worker, RECENT]
            if not stays or agree:
                break
    if best < 0:
        return lowest
    if stays:
        loads.load[best, RECENT] += _NEWCOMER
    return best


@kernel
def _next_with_room(now: float, full: float, loads: Loads, tally: NDArray[np.int64]) -> int:
    """The next worker in turn that isn't full; if all are (only in small windows, see the proof), the least full."""
    for _ in range(len(loads.load)):
        worker = _next_in_turn(tally, len(loads.load))
        if loads.load[worker, AHEAD] - now <= full:
            return worker
    return int(np.argmin(loads.load[:, AHEAD]))


@kernel
def _next_in_turn(tally: NDArray[np.int64], workers: int) -> int:
    turn: int = (tally[TURN] + 1) % workers
    tally[TURN] = turn
    return turn
