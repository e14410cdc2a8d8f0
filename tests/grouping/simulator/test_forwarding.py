"""The compiled workers that pass tuples on, against plain ones."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.grouping.simulator.plain_workers import forwarding
from unskew.grouping.simulator.forwarding import Stage, advance
from unskew.grouping.simulator.queues import new_queues


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
    stage = Stage(
        codes, arrivals, costs, factors, np.zeros(1, np.int64),
        np.empty(n, np.int32), np.empty(n), np.full(n, np.nan), np.zeros(1, np.int64),
    )  # fmt: skip
    queues, busy, start = new_queues(n, workers), np.zeros(workers, np.bool_), 0
    for version, until in enumerate([*changes, np.inf]):
        stop = int(np.searchsorted(arrivals, until))
        stage.workers[start:stop] = owners[version][codes[start:stop]]
        advance(stage, queues, busy, owners[version], start, stop, until)
        start = stop
    assert stage.workers.tolist() == [worker for worker, _ in plain]
    assert np.allclose(stage.finishes, [finish for _, finish in plain])
    assert stage.forwarded[0] == forwarded
    assert not busy.any()
    assert not queues.length.any()
