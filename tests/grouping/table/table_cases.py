"""Streams for property tests, as the oracle and as the planners take them; routers, and their workers' reports."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import strategies as st

from tests.grouping.table.plain_table import Stream
from unskew.grouping import GROUPINGS, encode_keys
from unskew.grouping.table import KeyRecords
from unskew.grouping.table.router import TableRouter


@st.composite
def streams(draw, most_keys=30):
    """1 to 6 workers and up to 30 keys, about half of them in the routing table."""
    workers = draw(st.integers(1, 6))
    worker = st.integers(0, workers - 1)
    key = st.tuples(st.integers(0, 30), st.integers(1, 9), worker, worker, st.booleans())
    keys = draw(st.lists(key, min_size=1, max_size=most_keys))
    return Stream(
        cost=[c for c, *_ in keys],
        memory=[s for _, s, *_ in keys],
        current=[there if routed else home for *_, home, there, routed in keys],
        home=[home for _, _, home, _, _ in keys],
        workers=workers,
        theta_max=draw(st.sampled_from([Fraction(0), Fraction(1, 20), Fraction(2, 25), Fraction(1, 4), Fraction(1)])),
    )


@st.composite
def perfect(draw):
    """A stream that can be balanced perfectly, no key heavier than all that a worker should have."""
    workers, load = draw(st.integers(2, 5)), draw(st.sampled_from([6, 10, 12, 20, 30, 60]))
    cost = []
    for _ in range(workers):
        rest = load
        while rest:
            cost.append(draw(st.integers(1, min(rest, load - 1))))
            rest -= cost[-1]
    current = draw(st.lists(st.integers(0, workers - 1), min_size=len(cost), max_size=len(cost)))
    return Stream(cost, [1] * len(cost), current, list(current), workers)


def records(stream, count=None):
    return KeyRecords(
        np.array(stream.cost, np.float64),
        np.array(stream.memory, np.float64),
        np.array(stream.current, np.int32),
        np.array(stream.home, np.int32),
        np.array(count or [1] * len(stream.cost), np.int64),
        stream.workers,
    )


def planned(scheme, stream):
    """Where the scheme wants each key: a list of workers."""
    keys = records(stream)
    assignment = scheme.assign(keys, keys.limit(float(stream.theta_max)))
    destination = np.full(len(keys), -1)
    destination[assignment.record] = assignment.worker
    assert assignment.loads().tolist() == stream.loads(destination.tolist())
    assert assignment.table() == stream.table(destination.tolist())
    assert assignment.migration() == stream.migration(destination.tolist())
    return destination.tolist()


TABLES = [name for name, scheme in GROUPINGS.items() if issubclass(scheme, TableRouter)]
tables = pytest.mark.parametrize("name", TABLES)
WORKERS = 6


def observed(router, keys, workers, costs=None):
    """The workers' reports of one interval."""
    reports = {}
    for worker in np.unique(workers):
        mine = workers == worker
        monitor = router.monitor()
        monitor.observe(encode_keys(keys.distinct.take(keys.codes[mine])), None if costs is None else costs[mine])
        reports[int(worker)] = monitor.report()
    return reports
