"""Tokens: a number for each worker, chosen so that Spark's hash puts worker w in partition w mod P.

Grouping by the workers' own numbers collides: 0 to 9 fall on 7 of 10 partitions.
"""

from collections import defaultdict

import mmh3

_SEED = 42  # Spark's Murmur3Hash; it places a row by pmod(hash, P)


def tokens(workers: int, partitions: int) -> list[int]:
    """The token of each worker: ints, all different.

    >>> [mmh3.hash(token.to_bytes(4, "little"), 42) % 4 for token in tokens(6, 4)]
    [0, 1, 2, 3, 0, 1]
    """
    found: defaultdict[int, list[int]] = defaultdict(list)
    needed = -(-workers // partitions)
    token = 0
    while any(len(found[place]) < needed for place in range(min(workers, partitions))):
        found[mmh3.hash(token.to_bytes(4, "little"), _SEED) % partitions].append(token)
        token += 1
    return [found[w % partitions][w // partitions] for w in range(workers)]
