"""Plans as values: who may adopt which, once; and which keys change their owner by it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.grouping import GROUPINGS, create, encode_keys
from unskew.grouping.feedback import Plan
from unskew.grouping.key import Key
from unskew.grouping.keys import keys_from_hashes

MOVING = [name for name in GROUPINGS if GROUPINGS[name].migrates_keys]
TABLES = [name for name in MOVING if name != "CONSISTENT_HASH"]
#: With these a plan is made soon, and often.
OPTIONS = {
    "PARTIAL_KEY": {"probe_every": 1},
    "CONSISTENT_HASH": {"rounds": 9},
    "POSG": {"window": 50, "tolerance": 1.0},
    **{name: {"window": 1, "theta_max": 0.02} for name in TABLES},
}
FED = [name for name in GROUPINGS if create(name, 2, **OPTIONS.get(name, {})).controller() is not None]
#: A parameter of each scheme, and a value that isn't its default.
OTHER = {
    "PARTIAL_KEY": ("choices", 3), "POSG": ("epsilon", 0.1), "CONSISTENT_HASH": ("tokens", 2), "READJ": ("sigma", 0.1),
    "LLFD": ("theta_max", 0.1), "MINTABLE": ("window", 3), "MINMIG": ("beta", 1.0), "MIXED": ("table_max", 7),
    "MIXED_BF": ("degree", 8),
}  # fmt: skip
POOL = [f"k{i}" for i in range(300)]


def made(name, workers=5, seed=0, **more):
    return create(name, workers, seed=seed, **{**OPTIONS[name], **more})


def interval(router, number):
    """The monitors' reports, and the queues, after a router has routed an interval of its own."""
    rng = np.random.default_rng(number)
    share = rng.permutation(np.arange(1, len(POOL) + 1) ** -1.1)
    keys = encode_keys(np.array(POOL)[rng.choice(len(POOL), 5000, p=share / share.sum())])
    workers = router.route(keys)
    reports = {}
    for worker in np.unique(workers).tolist():
        monitor = router.monitor()
        if monitor is not None:
            mine = keys.distinct.take(keys.codes[workers == worker])
            monitor.observe(encode_keys(mine), np.ones(len(mine)))
            reports[worker] = monitor.report()
    return reports, np.bincount(workers, minlength=router.workers)


def plans_of(router, intervals):
    """The plans of these intervals, each adopted before the next."""
    controller = router.controller()
    for number in intervals:
        reports, queues = interval(router, number)
        plan = controller.plan(reports, queues, {0: report} if (report := router.report()) else None)
        if plan is not None:
            yield plan
            router.adopt(plan)


def first_plan(router):
    return next(iter(plans_of(router, range(20))))


def test_all_schemes_with_feedback_are_here():
    assert set(FED) == set(OTHER)
    assert set(MOVING) == set(FED) - {"POSG", "PARTIAL_KEY"}


def test_what_is_no_plan_is_not_read():
    with pytest.raises(ValueError, match="not a saved state"):
        Plan.read(b"no")
    with pytest.raises(ValueError, match="this is"):
        Plan.read(create("KEY", 2).save())


@pytest.mark.parametrize("name", FED)
def test_another_ones_plan_is_refused(name):
    """Of another W, seed, parameter or scheme: nothing changes, and the message names both."""
    plan = first_plan(made(name))
    option, value = OTHER[name]
    others = [made(name, 13), made(name, seed=1), made(name, **{option: value}), made(FED[FED.index(name) - 1])]
    for other in others:
        before = other.save()
        with pytest.raises(ValueError, match=r"plan \d+ is for \(.*\), this is \(.*\)") as refused:
            other.adopt(plan)
        assert plan.identity in str(refused.value)
        assert other.save() == before
    assert made(name).adopt(plan)


@pytest.mark.parametrize("name", FED)
def test_plans_are_numbered_and_adopted_once(name):
    router = made(name)
    seen = []
    for plan in plans_of(router, range(12)):
        assert (plan.number, plan.base) == (len(seen) + 1, len(seen))
        for old in seen:
            before = router.save()
            assert not router.adopt(old)
            assert router.save() == before
        seen.append(plan)
    assert len(seen) > 1
    assert router.plan == len(seen)
    restored = made(name)
    restored.load(router.save())
    assert restored.plan == router.plan
    assert not restored.adopt(seen[-1])


class Adopting(Key):
    """Remembers the plan that it adopted last, and whether it missed the one before."""

    def _adopt(self, values, *, missed):
        self.adopted = (values["of"], missed)


def test_a_router_knows_when_it_has_missed_a_plan():
    router, adopted = Adopting(2), []
    for number in (1, 2, 4, 5, 9):
        assert router.adopt(Plan(number, number - 1, "KEY workers=2 seed=0", {"of": number}))
        adopted.append(router.adopted)
    assert adopted == [(1, False), (2, False), (4, True), (5, False), (9, True)]


@pytest.mark.parametrize("name", MOVING)
@settings(max_examples=20)
@given(intervals=st.lists(st.integers(0, 30), min_size=2, max_size=6))
def test_moving_names_all_that_move_and_no_others(name, intervals):
    """Between any two plans, whatever lies between them, of all keys that there are; expired ones too."""
    router, keys = made(name), encode_keys(POOL)
    at = [made(name)]
    for plan in plans_of(router, intervals):
        at.append(made(name))
        at[-1].adopt(plan)
    for one in at:
        for other in at:
            moving = one.moving_keys(other)
            if name in TABLES:
                assert moving.tolist() == sorted(keys.hashes[one.owners(keys) != other.owners(keys)].tolist())
                most = max(router.internals()["table"] for router in (one, other))
                assert one.moving_keys(other, most).tolist() == moving.tolist()
                assert most == 0 or one.moving_keys(other, most - 1) is None
            else:
                assert moving is None
    assert router.moving_keys(made(name, 6)) is None


def owners(router, hashes):
    return router.owners(keys_from_hashes(hashes)).tolist()


@pytest.mark.parametrize("name", TABLES)
@settings(max_examples=20)
@given(intervals=st.lists(st.integers(0, 30), min_size=2, max_size=6))
def test_a_plan_names_every_key_that_it_moves(name, intervals):
    router, before = made(name), made(name)
    for plan in plans_of(router, intervals):
        after = made(name)
        after.adopt(plan)
        moved = plan.values["moved_keys"]
        assert moved.tolist() == before.moving_keys(after).tolist()
        assert plan.values["moved_from"].tolist() == owners(before, moved)
        assert plan.values["moved_to"].tolist() == owners(after, moved)
        before = after
