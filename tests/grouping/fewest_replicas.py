"""The fewest replicas that a small batch can have at a cap, exactly: how far PLANNED is from the best possible.

To find them is NP-hard in general: it is packing with fragmentation (Shachnai, Tamir and Yehezkely, *Approximation
Schemes for Packing with Item Fragmentation*, Theory of Computing Systems 43, 2008). Both functions take exponential
time.
"""

from itertools import combinations


def fewest(loads, workers, cap):
    """The fewest replicas of keys with these loads on so many workers, or None if they don't fit. O(W · 3^K).

    Keys and workers are the nodes of a graph, and replicas are its edges. A component with k keys and w workers has at
    least k + w - 1 edges, and McNaughton's wrap-around rule needs no more. So an assignment is a partition of the keys.
    A part of load L needs ⌈L/cap⌉ workers.
    """
    keys = len(loads)
    whole = (1 << keys) - 1
    needs = [-(-sum(load for k, load in enumerate(loads) if part >> k & 1) // cap) for part in range(whole + 1)]
    best = [{} for _ in range(whole + 1)]  # keys → workers used → the most parts
    best[0] = {0: 0}
    for some in range(1, whole + 1):
        rest = some & (some - 1)
        first, others = some ^ rest, rest
        while True:  # the part that the first of these keys is in, in every way
            part = first | others
            for used, parts in best[some ^ part].items():
                if used + needs[part] <= workers:
                    both = used + needs[part]
                    best[some][both] = max(best[some].get(both, 0), parts + 1)
            if not others:
                break
            others = (others - 1) & rest
    return min((keys + used - parts for used, parts in best[whole].items()), default=None)


def fewest_added(loads, replicas, caps):
    """The fewest replicas to add to those that the keys have, so that the load fits. It tries all sets of them.

    ``replicas`` has a set of workers for each key.
    """
    others = [(k, w) for k in range(len(loads)) for w in range(len(caps)) if w not in replicas[k]]
    for number in range(len(others) + 1):
        for added in combinations(others, number):
            more = [set(own) for own in replicas]
            for k, w in added:
                more[k].add(w)
            if fits(loads, more, caps):
                return number
    return None


def fits(loads, replicas, caps):
    """Whether the load fits: Hall's condition, for all sets of workers."""
    for chosen in range(1 << len(caps)):
        only = sum(load for load, own in zip(loads, replicas, strict=True) if all(chosen >> w & 1 for w in own))
        if only > sum(cap for w, cap in enumerate(caps) if chosen >> w & 1):
            return False
    return True
