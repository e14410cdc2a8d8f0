"""The distribution of a window, as its rows have it."""

import numpy as np

from unskew.apps.aggregator.observer import HOTTEST, Distribution


def require_distribution(found: Distribution, rows: list[tuple[str, int, int, int]], workers: int) -> None:
    """Require that a window's distribution is that of its rows: key, worker, tuples, count."""
    loads = np.zeros((3, workers), np.int64)
    for _, worker, tuples, count in rows:
        loads[:2, worker] += tuples, count
    for _, worker in {(key, worker) for key, worker, *_ in rows}:
        loads[2, worker] += 1
    assert np.array_equal([found.tuples, found.counts, found.keys], loads)
    totals = {key: [sum(row[n] for row in rows if row[0] == key) for n in (2, 3)] for key, *_ in rows}
    places = {key: len({row[1] for row in rows if row[0] == key}) for key in totals}
    assert found.distinct_keys == len(totals)
    hottest = sorted(totals, key=lambda key: (-totals[key][0], key))[:HOTTEST]
    expected = [(key, *totals[key], places[key]) for key in hottest]
    assert [(hot.key, hot.tuples, hot.count, hot.workers) for hot in found.hottest] == expected
