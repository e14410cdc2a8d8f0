"""The compiled machine against the paper's, tuple for tuple and message for message."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.grouping.plain_posg import run
from unskew.grouping import encode, streams
from unskew.grouping.posg import Posg
from unskew.grouping.posg.scheduler import STATES
from unskew.grouping.posg.timeline import unfold


def compare(keys, arrivals, services, k, *, latency=0.0, **options):
    router = Posg(k, **options)
    got = unfold(router, encode(keys), arrivals, services, latency=latency)
    expected = run(
        [int(key) for key in keys], arrivals, services, k,
        rows=router.rows, columns=router.columns, seed=router.seed,
        window=router.window, tolerance=router.tolerance, latency=latency, settle=router.settle,
    )  # fmt: skip
    workers, finishes, states, messages = expected
    assert got.workers.tolist() == workers
    assert got.finishes.tolist() == finishes
    assert [STATES[state] for state in got.states] == states
    assert got.messages == messages
    return states


@pytest.mark.parametrize("settle", ["work", "clock"])
@given(
    k=st.integers(1, 6),
    window=st.integers(1, 40),
    tolerance=st.sampled_from([0.0, 0.05, 0.3, 2.0]),
    latency=st.sampled_from([0.0, 3.0, 500.0]),
    z=st.sampled_from([0.0, 1.0, 2.0]),
    load=st.floats(0.3, 1.5),
    seed=st.integers(0, 1000),
)
def test_equals_the_paper(k, window, tolerance, latency, z, load, seed, settle):
    n = 800
    rng = np.random.default_rng(seed)
    keys = streams.zipf(z, 60).take(0, n, seed=seed)
    services = rng.integers(1, 65, 60).astype(float)[keys][:, None] * rng.uniform(0.8, 1.2, k)
    arrivals = np.cumsum(rng.exponential(services.mean() / k / load, n))
    compare(
        keys, arrivals, services, k,
        latency=latency, seed=seed, window=window, tolerance=tolerance, settle=settle, epsilon=0.3, delta=0.2,
    )  # fmt: skip


def test_goes_through_all_states_and_back():
    n, k = 6000, 3
    keys = streams.zipf(1.0, 100).take(0, n)
    services = np.repeat(1.0 + keys[:, None] % 9, k, axis=1)
    states = compare(keys, np.arange(n) * 2.0, services, k, window=64, tolerance=0.2)
    order = [a for a, b in zip(states, [*states[1:], ""], strict=True) if a != b]
    assert order[:4] == ["ROUND_ROBIN", "SEND_ALL", "WAIT_ALL", "RUN"]
    assert order.count("RUN") > 3


def test_beats_round_robin_once_it_runs():
    """The paper's default stream, long enough that learning is a small part of it."""
    n, k = 150_000, 5
    keys = streams.zipf(1.0, 4096).take(0, n)
    costs = np.random.default_rng(0).permutation(np.repeat(np.arange(1, 65.0), 64))[keys]
    arrivals = np.arange(n) * (1.02 * costs.mean() / k)
    robin = unfold(Posg(k, window=n), encode(keys), arrivals, costs)
    posg = unfold(Posg(k, settle="clock"), encode(keys), arrivals, costs)
    assert set(robin.states) == {0}
    assert (posg.finishes - arrivals).mean() < 0.9 * (robin.finishes - arrivals).mean()
