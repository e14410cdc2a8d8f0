"""`simulate` against figures counted by hand, and against what the papers say they tend to."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.grouping.simulator.plain_workers import fifo
from unskew.grouping import create, encode_keys, streams
from unskew.grouping.feedback import Plan
from unskew.grouping.simulator import FeedbackTiming, Speeds, class_costs, make_arrivals, make_workload, simulate
from unskew.grouping.simulator.feedback import sum_transfers
from unskew.grouping.simulator.workers import FifoWorkers


def some(n=3000, workers=7, z=1.2, keys=200, load=0.9, seed=0, cost=1.0):
    return make_workload(
        streams.zipf(z, keys).take(0, n, seed=seed), make_arrivals(load, cost, n, workers, seed=seed), cost
    )


@pytest.mark.parametrize("name", ["SHUFFLE", "KEY", "PARTIAL_KEY", "DYNAMIC_KEY", "FULL_KNOWLEDGE"])
def test_figures_by_hand(name):
    workers, window = 7, 50.0
    load = some()
    got = simulate(lambda: create(name, workers), load, sources=3, window=window, samples=50)
    keys, n = load.keys.codes.tolist(), len(load)
    where = got.assigned.tolist()
    finishes = fifo(where, load.arrivals, load.costs, workers)
    completion = np.array(finishes) - load.arrivals
    pairs, loads, imbalances = defaultdict(set), Counter(), []
    for i, (key, worker) in enumerate(zip(keys, where, strict=True)):
        pairs[key].add(worker)
        loads[worker] += 1
        imbalances.append(max(loads.values()) - (i + 1) / workers)
    assert got.average_imbalance == pytest.approx(np.mean(imbalances) / n)
    assert got.final_imbalance == pytest.approx(imbalances[-1] / n)
    assert got.memory == sum(map(len, pairs.values()))
    assert got.replication == pytest.approx(got.memory / len(pairs))
    messages = {((a - load.arrivals[0]) // window, k, w) for a, k, w in zip(load.arrivals, keys, where, strict=True)}
    assert got.aggregation_messages == len(messages)
    assert np.allclose(got.completions, completion)
    assert got.mean_completion == pytest.approx(completion.mean())
    assert got.p99_completion == pytest.approx(np.percentile(completion, 99))
    assert got.makespan == pytest.approx(max(finishes) - load.arrivals[0])
    assert got.series["tuples"][-1] == n
    assert got.series["imbalance"][-1] == pytest.approx(imbalances[-1])
    assert got.loads.sum() == n
    assert got.distinct_keys == len(pairs)


def test_each_source_has_its_router():
    load = some()
    got = simulate(lambda: create("PARTIAL_KEY", 7), load, sources=4)
    keys = load.keys.distinct.take(load.keys.codes).to_numpy()
    for source in range(4):
        alone = create("PARTIAL_KEY", 7).at_source(source).route(keys[source::4])
        assert (got.assigned[source::4] == alone).all()


def test_sources_of_a_shared_scheme_share_it():
    load = some()
    one, many = (
        simulate(lambda: create("PARTIAL_KEY", 7, estimation="global"), load, sources=s).assigned for s in (1, 9)
    )
    assert (one == many).all()


def test_split_by_key_sends_a_key_to_one_source():
    load = some()
    got = simulate(lambda: create("SHUFFLE", 7), load, sources=4, split="key")
    turns = simulate(lambda: create("SHUFFLE", 7), load, sources=4)
    assert got.loads.sum() == turns.loads.sum() == len(load)
    assert got.final_imbalance * len(load) <= 4
    assert (got.assigned != turns.assigned).any()


def test_costs_by_class_and_slow_workers():
    keys = encode_keys(np.arange(1000))
    costs = class_costs(keys, [1.0, 10.0])
    assert set(costs.tolist()) == {1.0, 10.0}
    assert 300 < (costs == 1).sum() < 700
    load = make_workload(np.zeros(100, int), np.arange(100) * 10.0, 1.0)
    slow = simulate(lambda: create("SHUFFLE", 2), load, speeds=Speeds.constant([1.0, 3.0]))
    assert slow.completions[:4].tolist() == [1, 3, 1, 3]


@settings(max_examples=25)
@given(interval=st.floats(10, 500), delay=st.floats(0, 500), seed=st.integers(0, 20))
@pytest.mark.slow
def test_feedback_changes_nothing_before_it_can_arrive(interval, delay, seed):
    """Up to the first plan, a scheme with feedback routes as without any."""
    load = some(seed=seed, z=1.5)
    options = {"threshold": 0.0, "rounds": 5}
    got = simulate(lambda: create("CONSISTENT_HASH", 7, **options), load, feedback=FeedbackTiming(interval, delay))
    plain = create("CONSISTENT_HASH", 7).route(load.keys)
    early = load.arrivals < load.arrivals[0] + interval + delay
    same = got.assigned == plain
    # A tuple that waited until then may have been passed on.
    assert (same | (got.completions + load.arrivals > load.arrivals[0] + interval + delay)).all()
    assert early.any()


def test_feedback_helps():
    load = some(n=60_000, workers=10, z=0.8, keys=5000)
    plain = simulate(lambda: create("CONSISTENT_HASH", 10, rounds=0), load)
    fed = simulate(
        lambda: create("CONSISTENT_HASH", 10, rounds=5, method="doubling"), load, feedback=FeedbackTiming(200.0)
    )
    assert fed.plans > 0
    assert fed.moved_keys > 0
    assert fed.makespan < plain.makespan
    assert not np.isnan(fed.completions).any()


def test_the_end_is_waited_for():
    """Tuples that wait after the last arrival are forwarded and finished too."""
    load = make_workload(["a"] * 300 + ["b"] * 300, np.arange(600) * 0.01, 1.0)
    got = simulate(lambda: create("CONSISTENT_HASH", 4, rounds=4), load, feedback=FeedbackTiming(20.0))
    assert (got.completions > 0).all()
    assert got.forwarded > 0


def test_long_silences_are_skipped():
    load = make_workload(["a", "b"] * 3, [0, 1, 1e12, 1e12 + 1, 2e12, 2e12 + 1], 1.0)
    got = simulate(lambda: create("POSG", 2), load, feedback=FeedbackTiming(1.0))
    assert got.tuples == 6


def test_deterministic_but_for_the_time_measured():
    load = some()
    one, other = (
        simulate(lambda: create("POSG", 7, window=50), load, sources=3, feedback=FeedbackTiming(100, 10))
        for _ in range(2)
    )
    assert (one.assigned == other.assigned).all()
    ignore = {"routing_ns"}
    assert {k: v for k, v in one.figures().items() if k not in ignore} == {
        k: v for k, v in other.figures().items() if k not in ignore
    }


def test_far_more_sources_and_workers_than_cores():
    n = 200_000
    load = make_workload(streams.zipf(1.0, 100_000).take(0, n), make_arrivals(0.8, 1.0, n, 10_000), 1.0)
    got = simulate(lambda: create("PARTIAL_KEY", 10_000), load, sources=1000, samples=10)
    assert len(got.loads) == 10_000
    assert got.loads.sum() == n


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda load: simulate(lambda: create("KEY", 3), load, sources=0), "sources is 0"),
        (lambda load: simulate(lambda: create("KEY", 3), load, samples=0), "samples is 0"),
        (lambda load: simulate(lambda: create("KEY", 3), load, window=0), "window is 0"),
        (lambda load: simulate(lambda: create("KEY", 3), load, window=-5.0), "window is -5.0"),
        (lambda load: simulate(lambda: create("KEY", 3), load, window=float("nan")), "window is nan"),
        (
            lambda load: simulate(lambda: create("KEY", 3), load, speeds=Speeds.constant([1.0])),
            "speeds are of 1 workers",
        ),
        (lambda load: simulate(lambda: create("KEY", 3), make_workload([], [])), "no tuples"),
        (lambda load: FeedbackTiming(1, -1), "delay is -1"),
        (lambda load: FeedbackTiming(1, 0, -1), "transfer is -1"),
        (lambda load: make_workload(["a", "b"], [2, 1]), "back in time"),
        (lambda load: make_workload(["a", "b"], [1]), "valid: alike"),
        (lambda load: make_workload(["a"], [1], -1.0), "costs has -1"),
    ],
)
def test_bad_parameters(call, says):
    with pytest.raises(ValueError, match=says):
        call(some(n=10))


def test_moving_state_keeps_both_workers_busy():
    """By hand: a plan at 10 ms that takes 4 units of state from worker 0 to 1, and 2 from 2 to 1, at 3 ms a unit."""
    arrivals = [0, 0, 0, 0, 11, 11, 11, 11, 40]
    workers = FifoWorkers(make_workload(["a"] * 9, arrivals), Speeds.constant(np.ones(4)))
    workers.assigned[:] = [0, 1, 2, 3, 0, 1, 2, 3, 1]
    workers.serve(0, 4, 10.0)
    values = {"moved_from": np.array([0, 2]), "moved_to": np.array([1, 1]), "moved_sizes": np.array([4.0, 2.0])}
    workers.occupy(10.0, 3 * sum_transfers([Plan(1, 0, "", values), Plan(2, 1, "", {"tokens": 1})], 4))
    workers.serve(4, 9, 100.0)
    assert workers.finishes.tolist() == [1, 1, 1, 1, 23, 29, 17, 12, 41]
