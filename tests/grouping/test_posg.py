"""POSG by intervals: router, monitors and controller together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.grouping import create, encode, streams
from unskew.grouping.feedback import Plan

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
                monitor.observe(encode(np.concatenate(parts)[mine]), costs[mine])
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
    values = {
        "senders": np.array([0], np.int32), "frequencies": router.frequencies, "works": router.works,
        "means": router.means, "epoch": -1, "deltas": np.zeros(4), "weights": np.ones(1),
    }  # fmt: skip

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


@given(sources=st.integers(1, 4), seed=st.integers(0, 50))
def test_a_source_that_lost_its_state_is_in_step_by_the_newest_plan(sources, seed):
    world, in_step = World(sources), 0
    for number in range(12):
        router = world.routers[-1]
        before = router.plan
        world.interval(streams.zipf(1.0, len(COSTS)).take(number * 600, number * 600 + 600, seed=seed))
        if router.plan > before:
            lost = create("POSG", 4, **OPTIONS).at_source(sources - 1)
            lost.adopt(world.plan)
            assert lost.internals() == router.internals()
            if router.internals()["state"] != "ROUND_ROBIN":
                assert lost.save() == router.save()
                in_step += 1
    assert in_step


@given(seed=st.integers(0, 50), lost=st.integers(4, 9))
def test_accounts_are_true_again_after_a_source_lost_its_state(seed, lost):
    """It routes an interval by itself before it gets a plan, and the sources are in step from then on."""
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


def test_plans_are_never_written_to_again():
    world = World()
    plans = []
    for router in world.routers:
        router.adopt = lambda plan, adopt=router.adopt: (plans.append((plan, plan.save())), adopt(plan))
    world.run(15, 400)
    assert len(plans) > 2
    assert all(plan.save() == copy for plan, copy in plans)


def test_all_three_are_restored_from_their_states():
    whole, cut = World(sources=2), World(sources=2)
    whole.run(20, 400)
    cut.run(11, 400)
    restored = World(sources=2)
    for old, new in zip(
        [*cut.routers, *cut.monitors, cut.controller],
        [*restored.routers, *restored.monitors, restored.controller],
        strict=True,
    ):
        new.load(old.save())
    stream = streams.zipf(1.0, len(COSTS))
    for i in range(11, 20):
        restored.interval(stream.take(i * 400, (i + 1) * 400))
    assert [r.save() for r in restored.routers] == [r.save() for r in whole.routers]
    assert [m.save() for m in restored.monitors] == [m.save() for m in whole.monitors]
    assert restored.controller.save() == whole.controller.save()


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


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"window": 0}, "window is 0"),
        ({"tolerance": -1}, "tolerance is -1"),
        ({"settle": "never"}, "settle is 'never'; valid: 'work', 'clock'"),
        ({"epsilon": 0}, "epsilon is 0"),
    ],
)
def test_bad_parameters(options, says):
    with pytest.raises(ValueError, match=says):
        create("POSG", 3, **options)


@given(cuts=st.lists(st.integers(1, 1999), max_size=10), seed=st.integers(0, 50))
def test_all_sketches_that_become_stable_are_handed_over(cuts, seed):
    """However the stream is cut into intervals: several in one are handed over as their sum."""
    keys = streams.zipf(1.0, len(COSTS)).take(0, 2000, seed=seed)
    sums = []
    for ends in (range(50, 2001, 50), [*sorted(set(cuts)), 2000]):
        monitor, total, start = create("POSG", 4, **OPTIONS).monitor(), 0, 0
        for end in ends:
            monitor.observe(encode(keys[start:end]), COSTS[keys[start:end]])
            report, start = monitor.report(), end
            if "frequencies" in report:
                total = total + np.stack([report["frequencies"], report["works"]])
        sums.append(total)
    assert sums[0][0].sum() > 0
    assert np.allclose(*sums)


def test_the_monitor_asks_for_costs():
    with pytest.raises(ValueError, match="needs costs"):
        create("POSG", 3).monitor().observe(encode(["a"]), None)


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
