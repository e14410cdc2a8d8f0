"""How BOUNDED_LOAD routes: whole keys at home, split keys wherever there's room, compiled."""

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.bounded.crew import AHEAD, PACE, PASSING, PLACING, TUPLES, Crew, Rules, estimate, leads, limits
from unskew.grouping.bounded.elsewhere import LOOKS, elsewhere
from unskew.grouping.bounded.places import ALL, FIRST, KEYS, NONE, SEEN, SPAN, SPARE, Places, find, join, remember, tidy
from unskew.grouping.compiled import kernel
from unskew.grouping.hashing import below, mix

_SHORT = 8  # workers of a key that are all looked at, for each of its tuples
_MOST = 64  # workers of a key that are looked at for a tuple


@kernel
def route_within_bounds(  # noqa: C901, PLR0912, PLR0915  written out: a call would count references to each array
    codes: NDArray[np.int32],
    hashes: NDArray[np.uint64],
    homes: NDArray[np.int32],
    costs: NDArray[np.float64],
    rules: Rules,
    crew: Crew,
    places: Places,
    clock: NDArray[np.float64],
    tally: NDArray[np.int64],
) -> NDArray[np.int32]:
    """Route tuple by tuple; ``costs`` is empty if all cost 1.

    1. A key's place is its home, or where it was placed when it was new.
    2. A whole key goes there while the worker isn't ahead by more than ``WHOLE``; then it's voted which key is split,
       and if it's ahead by more than ``FULL``, it's this one.
    3. A split key goes to the first of its workers that has room; if none has, one more joins them, unless they are W.
    4. If three of four places are in use, only the vote's key is split; another one goes elsewhere, this once.
    """
    workers = np.empty(len(codes), np.int32)
    load, known, first, length, seen = (
        crew.load,
        places.key,
        places.first,
        places.length,
        places.seen,
    )  # once: see slots
    table, in_use = places.table, places.size[SPAN]
    cursor, since, head = places.cursor, places.since, places.head
    joined, following, used, reaches = places.worker, places.following, places.used, places.reach
    cost = 1.0
    now: float = clock[0]
    tuples: int = tally[TUPLES]
    span = max(rules.window // 10, 10 * len(load))
    to_estimate = span - tuples % span
    to_tidy = rules.period - tuples % rules.period
    opening, whole, full = limits(rules, 1.0)
    for i in range(len(codes)):
        code: int = codes[i]
        key: np.uint64 = hashes[code]
        tuples += 1
        if len(costs):
            cost = costs[i]
            now += cost
            opening, whole, full = limits(rules, now / tuples)
        else:
            now += 1.0
        slot = find(table, in_use, known, key)
        if slot < 0 and tally[PLACING] and rules.placed:
            slot = _place(key, homes[code], rules, crew, places, tally)
            in_use = places.size[SPAN]
        worker: int = homes[code]
        is_split = False
        if slot >= 0:
            worker = first[slot]
            seen[slot] = True
            is_split = length[slot] > 1
        if not is_split and load[worker, AHEAD] - now > whole:
            spare: int = places.size[SPARE] if slot >= 0 or places.size[KEYS] < len(known) else 0
            is_full = load[worker, AHEAD] - now > full
            if (leads(key, worker, crew) and spare) or (is_full and 4 * spare > len(joined)):
                if slot < 0:
                    slot = remember(places, key, worker)
                    in_use = places.size[SPAN]
                    crew.keys[worker] += 1
                is_split = True
            elif is_full:
                worker = elsewhere(key, now, opening, whole, full, False, rules, crew, tally)
        if is_split:
            # Of a few workers, the first that is open to all, else the one that is the least ahead; of many, the first
            # with room from where the last tuple went, and anew from the first after as many tuples as workers.
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
            if worker >= 0:
                cursor[slot] = best
                if best != FIRST:
                    used[best] = True
            else:
                worker = elsewhere(key, now, opening, reach, full, True, rules, crew, tally)
                if many < len(load):
                    join(places, slot, worker)
        load[worker, AHEAD] = max(load[worker, AHEAD], now) + cost * load[worker, PACE]
        load[worker, PASSING] += cost
        workers[i] = worker
        to_estimate -= 1
        if to_estimate == 0:
            estimate(crew, rules)
            to_estimate = span
        to_tidy -= 1
        if to_tidy == 0:
            _tidy(rules, crew, places, tally)
            in_use = places.size[SPAN]
            to_tidy = rules.period
    clock[0] = now
    tally[TUPLES] = tuples
    return workers


@kernel
def _place(key: np.uint64, home: int, rules: Rules, crew: Crew, places: Places, tally: NDArray[np.int64]) -> int:
    """Place a new key, if there's room: at home if that has at most its share of keys, else where the fewest are."""
    if places.size[KEYS] >= rules.placed:
        tally[PLACING] = 0
        return -1
    best: int = home
    fewest = crew.keys[home] * crew.load[home, PACE]
    if fewest > places.size[KEYS] * rules.pace / len(crew.keys):
        for look in range(1, LOOKS):
            worker = int(below(mix(key, rules.number + np.uint64(look)), len(crew.keys)))
            if crew.keys[worker] * crew.load[worker, PACE] < fewest:
                best, fewest = worker, crew.keys[worker] * crew.load[worker, PACE]
    crew.keys[best] += 1
    return remember(places, key, best)


@kernel
def _tidy(rules: Rules, crew: Crew, places: Places, tally: NDArray[np.int64]) -> None:
    """Forget what hasn't been used for a window.

    Placed keys stay as long as there's room for more: afterwards those that have come lately. When few of them are
    left, new keys are placed again.
    """
    placing = rules.placed > 0 and tally[PLACING]
    tidy(places, ALL if placing else SEEN if rules.placed else NONE)
    crew.keys[:] = 0
    for slot in range(places.size[KEYS]):
        crew.keys[places.first[slot]] += 1
    if places.size[KEYS] <= rules.placed // 16:
        tally[PLACING] = 1
