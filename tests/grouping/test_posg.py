"""POSG: its sketches, the compiled machine beside the paper's, and router, monitors and controller by intervals.

The sketches keep Count-Min's bound, the estimates' range and the paper's numbers; the machine equals the paper's, tuple
for tuple and message for message.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.papers.posg.timeline import run_timeline
from tests.grouping.plain_posg import run
from unskew.grouping import create, encode_keys, streams
from unskew.grouping.feedback import Plan
from unskew.grouping.posg import Posg
from unskew.grouping.posg.scheduler import STATES
from unskew.grouping.posg.sketch import (
    estimate_cost,
    estimate_frequency,
    expected_estimate,
    find_cells,
    sketch_shape,
    update_sketch,
)


def sketched(keys, costs, seed, rows, columns):
    encoded = encode_keys(keys)
    at = find_cells(encoded, seed, rows, columns)
    frequencies, works = np.zeros((1, rows, columns), np.int64), np.zeros((1, rows, columns))
    for code, cost in zip(encoded.codes, costs, strict=True):
        update_sketch(frequencies, works, 0, at, code, cost)
    return encoded, at, frequencies, works


def test_count_min_bound():
    """Estimate ≥ f, always; estimate - f ≥ ε(m - f) for a key with probability at most δ."""
    epsilon, delta, m = 0.1, 0.1, 2000
    bad = []
    for seed in range(60):
        keys = streams.zipf(0.8, 3000).take(0, m, seed=seed)
        encoded, at, frequencies, _ = sketched(keys, np.ones(m), seed, *sketch_shape(epsilon, delta))
        true = np.bincount(encoded.codes)
        estimated = np.array([estimate_frequency(frequencies, 0, at, key) for key in range(len(at))])
        assert (estimated >= true).all()
        bad.append((estimated - true >= epsilon * (m - true)).mean())
    assert np.mean(bad) <= delta


@given(st.lists(st.tuples(st.integers(0, 50), st.floats(1, 64)), min_size=1, max_size=200), st.integers(0, 100))
def test_estimates_lie_between_the_least_and_the_greatest_cost(tuples, seed):
    keys, costs = [key for key, _ in tuples], [cost for _, cost in tuples]
    _, at, frequencies, works = sketched(keys, costs, seed, 3, 7)
    for key in range(len(at)):
        assert min(costs) - 1e-9 <= estimate_cost(frequencies, works, 0, at, key, 0.0) <= max(costs) + 1e-9


def test_theorem_4_3_numeric_case():
    """With k = 55, n = 4096, costs 1 to 64, each 64 times: E between 32.08 and 32.92."""
    expected = expected_estimate(np.repeat(np.arange(1, 65.0), 64), 55)
    assert np.floor(100 * expected.min()) / 100 == 32.08
    assert np.floor(100 * expected.max()) / 100 == 32.91
    assert round(expected.max(), 2) == 32.92


def test_theorem_4_3_holds_for_our_hash_functions():
    n, columns = 200, 20
    costs = np.random.default_rng(1).permutation(np.arange(n)) % 64 + 1.0
    encoded = encode_keys(np.arange(n))
    ratios = np.zeros((400, n))
    for seed in range(400):
        at = find_cells(encoded, seed, 1, columns)[:, 0]
        ratios[seed] = (np.bincount(at, costs, columns) / np.maximum(1, np.bincount(at, minlength=columns)))[at]
    error = ratios.mean(axis=0) - expected_estimate(costs, columns)
    assert np.abs(error).max() < 5 * ratios.std(axis=0).max() / 20


@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 0.1), (0.7, 0.25), (1.0, 0.1), (0.001, 0.1)])
def test_shapes(epsilon, delta):
    """Rows: 4 for δ = 0.1 and 2 for 0.25; c is e/ε, rounded up (the paper's 54 and 55 columns for 0.05)."""
    rows, columns = sketch_shape(epsilon, delta)
    assert rows == {0.1: 4, 0.25: 2}[delta]
    assert columns == int(np.ceil(np.e / epsilon))


def compare(keys, arrivals, services, k, *, latency=0.0, **options):
    router = Posg(k, **options)
    got = run_timeline(router, encode_keys(keys), arrivals, services, latency=latency)
    same = {name: getattr(router, name) for name in ("rows", "columns", "seed", "window", "tolerance", "settle")}
    expected = run([int(key) for key in keys], arrivals, services, k, latency=latency, **same)
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
    options = {"seed": seed, "window": window, "tolerance": tolerance, "settle": settle, "epsilon": 0.3, "delta": 0.2}
    compare(keys, arrivals, services, k, latency=latency, **options)


def test_goes_through_all_states_and_back():
    n, k = 6000, 3
    keys = streams.zipf(1.0, 100).take(0, n)
    services = np.repeat(1.0 + keys[:, None] % 9, k, axis=1)
    states = compare(keys, np.arange(n) * 2.0, services, k, window=64, tolerance=0.2)
    order = [a for a, b in zip(states, [*states[1:], ""], strict=True) if a != b]
    assert order[:4] == ["ROUND_ROBIN", "SEND_ALL", "WAIT_ALL", "RUN"]
    assert order.count("RUN") > 3


COSTS = np.random.default_rng(0).permutation(np.arange(200)) % 20 + 1.0


#: Sketches that are soon stable, and accounts that can be checked.
OPTIONS = {"window": 50, "tolerance": 0.3, "settle": "work"}


class World:
    """S routers, W workers and a controller; an interval ends when all of its tuples are executed."""

    def __init__(self, sources=1, workers=4, **options):
        options = {**OPTIONS, **options}
        self.routers = [create("POSG", workers, **options).at_source(s) for s in range(sources)]
        self.monitors = [self.routers[0].monitor() for _ in range(workers)]
        self.controller = self.routers[0].controller()
        self.loads = np.zeros(workers)

    def interval(self, keys):
        parts = np.array_split(keys, len(self.routers))
        chosen = np.concatenate([router.route(part) for router, part in zip(self.routers, parts, strict=True)])
        costs = COSTS[np.concatenate(parts)]
        for worker, monitor in enumerate(self.monitors):
            mine = chosen == worker
            if mine.any():
                monitor.observe(encode_keys(np.concatenate(parts)[mine]), costs[mine])
        this = np.bincount(chosen, costs, len(self.loads))
        self.loads += this
        reports = {worker: report for worker, monitor in enumerate(self.monitors) if (report := monitor.report())}
        plan = self.controller.plan(
            reports, sources={source: router.report() for source, router in enumerate(self.routers)}
        )
        if plan is not None:
            self.plan = plan
            for router in self.routers:
                router.adopt(plan)
        return this

    def run(self, intervals, size, seed=0):
        stream = streams.zipf(1.0, len(COSTS))
        return [self.interval(stream.take(i * size, (i + 1) * size, seed=seed)) for i in range(intervals)]


def test_round_robin_until_every_worker_has_sent_its_sketch():
    world = World()
    world.run(1, 300)
    assert world.routers[0].internals() == {"state": "ROUND_ROBIN", "epoch": 0, "sketches": 0}
    world.run(6, 400)
    assert world.routers[0].internals()["sketches"] == 4
    assert world.routers[0].internals()["state"] != "ROUND_ROBIN"


def test_sources_start_their_round_robin_apart():
    world = World(sources=3)
    assert [router.route(["a"])[0] for router in world.routers] == [0, 1, 2]


@given(sources=st.integers(1, 5), workers=st.integers(1, 6), seed=st.integers(0, 50))
def test_synchronisation_makes_the_accounts_true(sources, workers, seed):
    """After a plan that synchronises, the sources' accounts sum up to what the workers really spent."""
    world = World(sources, workers)
    synchronised = 0
    for number in range(12):
        keys = streams.zipf(1.0, len(COSTS)).take(number * 600, number * 600 + 600, seed=seed)
        waiting = {router.report()["epoch"] for router in world.routers}
        assert len(waiting) == 1
        world.interval(keys)
        if waiting != {-1}:
            synchronised += 1
            assert np.allclose(sum(router.estimated for router in world.routers), world.loads)
    assert synchronised


@pytest.mark.parametrize("sources", [1, 5])
def test_balances_the_true_work_better_than_round_robin(sources):
    world = World(sources, workers=10, settle="clock", window=500, epsilon=0.01)
    size = 5000
    late = np.array(world.run(30, size)[20:])
    stream = streams.zipf(1.0, len(COSTS))
    robin = np.array(
        [np.bincount(np.arange(size) % 10, COSTS[stream.take(i * size, (i + 1) * size)]) for i in range(20, 30)]
    )
    assert straggling(late) < 0.7 * straggling(robin)


def straggling(loads):
    return (loads.max(axis=1) / loads.mean(axis=1) - 1).mean()


def test_a_reply_to_an_earlier_epoch_is_void():
    world = World()
    world.run(8, 400)
    router = world.routers[0]
    values = {"senders": np.array([0], np.int32), "epoch": -1, "deltas": np.zeros(4), "weights": np.ones(1)}
    values |= {name: getattr(router, name) for name in ("frequencies", "works", "means")}

    def adopt(values):
        assert router.adopt(Plan(router.plan + 1, router.plan, world.controller.identity, values))

    adopt(values)
    epoch, before = router.report()["epoch"], router.estimated.copy()
    late = {**values, "senders": np.array([], np.int32), "deltas": np.full(4, 9.0)}
    adopt({**late, "epoch": epoch - 1})
    assert (router.estimated == before).all()
    adopt({**late, "epoch": epoch})
    assert (router.estimated == before + 9).all()
    assert router.internals()["state"] == "RUN"


@given(seed=st.integers(0, 50), lost=st.integers(4, 9))
def test_accounts_are_true_again_after_a_source_lost_its_state(seed, lost):
    """The source routes an interval before it gets a plan; from then on the sources are in step."""
    world, synchronised = World(sources=3), 0
    for number in range(20):
        if number == lost:
            world.routers[1] = create("POSG", 4, **OPTIONS).at_source(1)
        waiting = {router.report()["epoch"] for router in world.routers}
        world.interval(streams.zipf(1.0, len(COSTS)).take(number * 600, number * 600 + 600, seed=seed))
        if number > lost and world.routers[1].plan > 0:
            caught_up = {router.internals()["epoch"] for router in world.routers}
            assert len(caught_up) == 1
        if number > lost + 4 and waiting != {-1}:
            assert len(waiting) == 1
            synchronised += 1
            assert np.allclose(sum(router.estimated for router in world.routers), world.loads)
    assert synchronised


def test_a_source_may_have_nothing_to_route():
    world = World(sources=2)
    for i in range(20):
        keys = streams.zipf(1.0, len(COSTS)).take(i * 400, i * 400 + 400)
        world.routers[1].route(keys[:0])
        world.routers, idle = world.routers[:1], world.routers[1:]
        world.interval(keys)
        world.routers += idle
    assert world.routers[0].internals()["state"] != "ROUND_ROBIN"
    assert np.isfinite(world.routers[0].estimated).all()


@given(cuts=st.lists(st.integers(1, 1999), max_size=10), seed=st.integers(0, 50))
def test_all_sketches_that_become_stable_are_handed_over(cuts, seed):
    """However the stream is cut into intervals: several sketches of one interval are reported as their sum."""
    keys = streams.zipf(1.0, len(COSTS)).take(0, 2000, seed=seed)
    sums = []
    for ends in (range(50, 2001, 50), [*sorted(set(cuts)), 2000]):
        monitor, total, start = create("POSG", 4, **OPTIONS).monitor(), 0, 0
        for end in ends:
            monitor.observe(encode_keys(keys[start:end]), COSTS[keys[start:end]])
            report, start = monitor.report(), end
            if "frequencies" in report:
                total = total + np.stack([report["frequencies"], report["works"]])
        sums.append(total)
    assert sums[0][0].sum() > 0
    assert np.allclose(*sums)


def test_the_monitor_asks_for_costs():
    with pytest.raises(ValueError, match="needs costs"):
        create("POSG", 3).monitor().observe(encode_keys(["a"]), None)


def test_in_every_state_an_array_is_its_tuples_one_by_one():
    seen = set()
    world = World(workers=5)
    for i in range(25):
        router = world.routers[0]
        seen.add(router.internals()["state"])
        keys = streams.zipf(1.0, len(COSTS)).take(10_000 + 40 * i, 10_040 + 40 * i)
        whole, single = (create("POSG", 5, **OPTIONS) for _ in range(2))
        whole.load(router.save())
        single.load(router.save())
        assert whole.route(keys).tolist() == [int(single.route(keys[at : at + 1])[0]) for at in range(40)]
        assert whole.save() == single.save()
        world.interval(streams.zipf(1.0, len(COSTS)).take(300 * i, 300 * (i + 1)))
    assert {"ROUND_ROBIN", "SEND_ALL", "RUN"} <= seen
