"""The sessions of a stream."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any


def sessions(tuples: Iterable[tuple[Any, Any]], gap: Any) -> Iterator[tuple[Any, Any, Any, int]]:
    """(key, first time, last time, number) of each session of these (key, time)s, in which no gap is longer."""
    times = defaultdict(list)
    for key, time in tuples:
        times[key].append(time)
    for key, of in times.items():
        of.sort()
        cuts = [n for n in range(1, len(of)) if of[n] - of[n - 1] > gap]
        for start, stop in zip([0, *cuts], [*cuts, len(of)], strict=True):
            yield key, of[start], of[stop - 1], stop - start
