"""The compiled queues, and the compiled workers that pass tuples on, against plain ones."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.grouping.simulator.plain_workers import fifo, forwarding, waiting
from unskew.grouping.simulator.workers import (
    ServiceTrace,
    advance_workers,
    count_waiting,
    new_queues,
    serve_tuples,
    service_times,
)
from unskew.grouping.simulator.workload import Speeds


@given(
    workers=st.integers(1, 6),
    gaps=st.lists(st.floats(0, 5), min_size=1, max_size=80),
    cuts=st.lists(st.integers(0, 80), max_size=5),
    seed=st.integers(0, 1000),
)
def test_finishes_and_waiting_tuples(workers, gaps, cuts, seed):
    rng = np.random.default_rng(seed)
    n = len(gaps)
    arrivals = np.cumsum(gaps)
    services = rng.exponential(workers * 2.0, n)
    assigned = rng.integers(0, workers, n).astype(np.int32)
    expected = fifo(assigned, arrivals, services, workers)
    queues, finishes = new_queues(n, workers), np.empty(n)
    bounds = sorted({0, n, *(c for c in cuts if c < n)})
    for a, b in pairwise(bounds):
        serve_tuples(queues, a, assigned[a:b], arrivals[a:b], services[a:b], finishes[a:b])
        now = arrivals[b - 1]
        plain = [waiting(assigned[:b], arrivals, services, expected, w, now) for w in range(workers)]
        assert count_waiting(queues, finishes, now).tolist() == plain
    assert np.allclose(finishes, expected)


def test_service_times_follow_worker_and_phase():
    speeds = Speeds(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0, 3]))
    assigned = np.array([0, 1, 1, 1, 0], np.int32)
    times = service_times(0, assigned, np.full(5, 10.0), speeds.factors, speeds.starts)
    assert times.tolist() == [10, 20, 20, 40, 30]
    later = service_times(2, assigned[2:], np.full(3, 10.0), speeds.factors, speeds.starts)
    assert later.tolist() == times[2:].tolist()


def test_drifting_speeds_go_from_first_to_last():
    speeds = Speeds.drifting([1.0, 1.0], [2.0, 0.5], 1000, phases=5)
    assert speeds.factors[0].tolist() == [1, 1]
    assert speeds.factors[-1].tolist() == [2, 0.5]
    assert speeds.starts.tolist() == [0, 200, 400, 600, 800]


@given(
    workers=st.integers(1, 5),
    n=st.integers(1, 60),
    changes=st.lists(st.floats(0, 100), max_size=4),
    load=st.floats(0.3, 4),
    seed=st.integers(0, 1000),
)
def test_equals_plain_events(workers, n, changes, load, seed):
    rng = np.random.default_rng(seed)
    keys = 6
    codes = rng.integers(0, keys, n).astype(np.int32)
    arrivals = np.sort(rng.uniform(0, 100, n))
    costs = rng.exponential(100 * workers * load / n, n)
    factors = rng.uniform(0.5, 2, (1, workers))
    changes = sorted(changes)
    owners = rng.integers(0, workers, (len(changes) + 1, keys)).astype(np.int32)
    plain, forwarded = forwarding(
        codes, arrivals, lambda i, w: costs[i] * factors[0, w], owners.__getitem__, owners.__getitem__, workers, changes
    )
    stage = ServiceTrace(
        *(codes, arrivals, costs, factors, np.zeros(1, np.int64)),
        *(np.empty(n, np.int32), np.empty(n), np.full(n, np.nan), np.zeros(1, np.int64)),
    )
    queues, busy, start = new_queues(n, workers), np.zeros(workers, np.bool_), 0
    for version, until in enumerate([*changes, np.inf]):
        stop = int(np.searchsorted(arrivals, until))
        stage.workers[start:stop] = owners[version][codes[start:stop]]
        advance_workers(stage, queues, busy, owners[version], start, stop, until)
        start = stop
    assert stage.workers.tolist() == [worker for worker, _ in plain]
    assert np.allclose(stage.finishes, [finish for _, finish in plain])
    assert stage.forwarded[0] == forwarded
    assert not busy.any()
    assert not queues.length.any()
