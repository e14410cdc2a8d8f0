"""The feedback loop on a topology without Spark: balance, replays, pending plans, and plan states as bytes."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from tests.apps.driver.plans.imitation import SOURCES, WORKERS, Imitation, Killed, stream
from tests.apps.local_settings import settings
from tests.apps.stateful.driver import Tally
from unskew.apps.checkpoint.plan_states import PlanStateLog
from unskew.apps.checkpoint.versions import Versions
from unskew.apps.driver.dataflow import Dataflow
from unskew.apps.metrics.task_reports import TaskReports, WorkerReport
from unskew.apps.router.router import Routing, SourceRouter
from unskew.apps.router.tuple_packets import cut_packets
from unskew.apps.worker.monitors import WorkerMonitors
from unskew.apps.worker.stateful.config import KeyedOperatorConfig, OperatorProgress, WorkerBatch
from unskew.apps.worker.stateful.store import MemoryStore
from unskew.apps.worker.stateful.worker import run_batch
from unskew.grouping import measures
from unskew.grouping.feedback import Plan
from unskew.grouping.feedback_loop import Interval, MigrationReport, PlanState, Rebalance
from unskew.grouping.simulated_cost import Cost

BATCHES = 6
STEPS = [*(f"router {s}" for s in range(SOURCES)), *(f"worker {w}" for w in range(WORKERS)), "loop"]
CASES = [
    ("MIXED", {}),
    ("POSG", {"window": 64, "tolerance": 0.5}),
    ("CONSISTENT_HASH", {"rounds": 9}),
    ("PARTIAL_KEY", {"probe_every": 500}),
]


def ran(imitation: Imitation, batches: int = BATCHES) -> Imitation:
    for batch, keys in enumerate(stream(batches)):
        imitation.run(batch, keys)
    return imitation


def busy(imitation: Imitation, batch: int, keys) -> list[float]:
    times = np.zeros(WORKERS)
    for part, routes in zip(keys, imitation.routes[batch], strict=True):
        np.add.at(times, routes, imitation.cost.of(part))
    return times.tolist()


@pytest.mark.parametrize("name", ["LLFD", "MINTABLE", "MINMIG", "MIXED", "MIXED_BF", "READJ"])
def test_tables_balance_what_is_measured(name, tmp_path):
    imitation = ran(Imitation(str(tmp_path), name))
    keys = stream(BATCHES)
    before, after = (measures.straggler_ratio(busy(imitation, b, keys[b])) for b in (0, BATCHES - 1))
    assert after < 1 + (before - 1) / 2
    state = PlanStateLog(str(tmp_path)).at(BATCHES)
    assert state.active.number >= 1
    first = imitation.rebalances[1][0]
    assert (first.plan, first.made, first.batch) == (1, 0, 1)
    assert first.keys > 0
    assert first.before == pytest.approx(before)
    assert first.after == pytest.approx(measures.straggler_ratio(busy(imitation, 1, keys[1])))


@pytest.mark.parametrize("settle", ["work", "clock"])
def test_posg_has_all_sketches_and_keeps_each_batch_even(settle, tmp_path):
    imitation = ran(Imitation(str(tmp_path), "POSG", CASES[1][1] | {"settle": settle}), batches=12)
    keys = stream(12)
    assert (PlanStateLog(str(tmp_path)).at(12).active.values["means"] > 0).all()
    (router,) = {SourceRouter(imitation.routing, source, 12)._grouping.internals()["sketches"] for source in range(2)}
    assert router == WORKERS
    uneven = [measures.straggler_ratio(busy(imitation, batch, keys[batch])) for batch in range(6, 12)]
    assert np.mean(uneven) < 1.15, "work that is done must not count for work that waits: it gave 1.6"
    assert imitation.rebalances[11] == (), "nothing moves"


def test_rings_and_probes_go_by_the_workers_loads(tmp_path):
    ring, probes = (ran(Imitation(str(tmp_path / name), name, options)) for name, options in CASES[2:])
    assert PlanStateLog(ring.checkpoint).at(BATCHES).active.values["tokens"].sum() > WORKERS
    assert ring.rebalances[1][0].keys is None
    loads = PlanStateLog(probes.checkpoint).at(BATCHES).active.values["loads"]
    assert loads.tolist() == sum(probes.loads(b) for b in range(BATCHES)).tolist()


@pytest.mark.parametrize(("name", "options"), CASES)
@pytest.mark.parametrize("step", STEPS)
def test_whoever_is_killed_after_a_step_goes_on_as_if_nothing_had_happened(name, options, step, tmp_path):
    whole = ran(Imitation(str(tmp_path / "whole"), name, options))
    killed = Imitation(str(tmp_path / "killed"), name, options)
    for batch, keys in enumerate(stream(BATCHES)):
        with pytest.raises(Killed):
            killed.run(batch, keys, kill_after=step)
        killed.run(batch, keys)
    for batch in range(BATCHES):
        for one, other in zip(whole.routes[batch], killed.routes[batch], strict=True):
            np.testing.assert_array_equal(one, other)
    assert PlanStateLog(killed.checkpoint).at(BATCHES) is not None
    # All but the time that planning took.
    mine, theirs = (PlanStateLog(each.checkpoint).at(BATCHES) for each in (whole, killed))
    assert mine.active == theirs.active
    assert mine.controller == theirs.controller


def test_a_plan_that_is_written_stands_whatever_is_measured_again(tmp_path):
    imitation = Imitation(str(tmp_path), "MIXED")
    keys = stream(3)
    with pytest.raises(Killed):
        imitation.run(0, keys[0], kill_after="loop")
    written = PlanStateLog(str(tmp_path)).written_for(1)
    assert written.active.number == 1
    imitation.cost = Cost(0.001, (9.0, 1.0, 1.0))  # the same tuples take other times
    imitation.run(0, keys[0])
    assert PlanStateLog(str(tmp_path)).at(1) == written
    imitation.run(1, keys[1])
    assert PlanStateLog(str(tmp_path)).at(2).controller != written.controller


def test_a_batch_without_tuples_is_no_interval(tmp_path):
    imitation = Imitation(str(tmp_path), "MIXED", {"window": 1})
    keys = stream(2)
    imitation.run(0, keys[0])
    state = PlanStateLog(str(tmp_path)).at(1)
    assert imitation.end(1, TaskReports()) == ()
    assert imitation.end(2, TaskReports(routers={}, workers={})) == ()
    assert PlanStateLog(str(tmp_path)).at(3) == state


def test_a_controller_that_cannot_be_read_starts_cold_and_is_listened_to(tmp_path, caplog):
    imitation = Imitation(str(tmp_path), "MIXED", {"theta_max": 0.0})
    keys = stream(4)
    for batch in range(2):
        imitation.run(batch, keys[batch])
    plans = PlanStateLog(str(tmp_path))
    state = plans.at(2)
    unreadable = PlanState(WORKERS, state.active, controller=b"of another version")
    Versions(str(tmp_path / "unskew" / "plans")).write(2, unreadable.save())
    imitation.run(2, keys[2])
    assert "starts cold" in caplog.text
    assert PlanStateLog(str(tmp_path)).at(3).active.number > state.active.number


class TestPending:
    """Where workers have states that move."""

    def reports(self, imitation: Imitation, **of_workers: MigrationReport) -> TaskReports:
        workers = dict(imitation.reports.workers)
        for worker, migration in of_workers.items():
            number = int(worker[1:])
            workers[number] = replace(workers[number], migration=migration)
        return replace(imitation.reports, workers=workers)

    @pytest.fixture
    def imitation(self, tmp_path):
        imitation = Imitation(str(tmp_path), "MIXED", states_move=True)
        self.keys = stream(1)[0]
        imitation.run(0, self.keys)
        return imitation

    def test_a_plan_pends_until_all_have_released_the_states_that_it_takes(self, imitation):
        first = PlanStateLog(imitation.checkpoint).at(1)
        assert (first.active, first.pending.number) == (None, 1)
        ready = MigrationReport(released=1, keys=3, bytes=100)
        assert imitation.end(1, self.reports(imitation, w0=ready, w2=ready)) == ()
        second = PlanStateLog(imitation.checkpoint).at(2)
        assert (second.active, second.pending.number, second.released) == (None, 1, {0, 2})
        assert imitation.end(2, TaskReports()) == (), "a batch without rows"
        assert PlanStateLog(imitation.checkpoint).at(3) == second
        # The others report it two batches later; those that have reported it need not do so again.
        assert imitation.end(3, self.reports(imitation, w1=ready, w3=MigrationReport(released=1))) == ()
        third = PlanStateLog(imitation.checkpoint).at(4)
        assert third.active == first.pending
        assert third.unrouted[0].keys == 9
        assert third.unrouted[0].bytes == 300
        (shown,) = imitation.end(4, self.reports(imitation))
        assert (shown.plan, shown.made, shown.batch, shown.keys) == (1, 0, 4, 9)
        assert 1 not in {known.plan for known in PlanStateLog(imitation.checkpoint).at(5).unrouted}

    def test_a_plan_for_more_workers_waits_for_the_new_ones(self, imitation):
        """In their first batch they learn the watermark, though they have no states to release."""
        before = replace(PlanStateLog(imitation.checkpoint).at(1), pending_workers=WORKERS + 1)
        loop = replace(imitation.loop, workers=WORKERS + 1)

        def called(*workers: int) -> Interval:
            return Interval(1, {}, {}, 0, migrations=dict.fromkeys(workers, MigrationReport(released=1)))

        waiting = loop.after(before, called(*range(WORKERS)))
        assert (waiting.active, waiting.workers) == (None, WORKERS)
        ready = loop.after(waiting, called(WORKERS))
        assert (ready.active, ready.workers) == (before.pending, WORKERS + 1)

    def test_an_older_release_is_none(self, imitation):
        imitation.end(1, self.reports(imitation, **{f"w{w}": MigrationReport(released=0) for w in range(WORKERS)}))
        assert PlanStateLog(imitation.checkpoint).at(2).released == frozenset()


def test_workers_with_states_observe_their_tuples_too(tmp_path):
    keys = np.array([f"key {i}" for part in stream(1)[0] for i in part])
    sent: list[WorkerReport] = []
    cost = Cost(0.0, (1.0,))
    monitors = WorkerMonitors(Routing("MIXED", WORKERS, str(tmp_path), streaming=True, cost=cost))
    config = KeyedOperatorConfig(Tally(), pa.string(), WORKERS, split=True, ttl_ms=1000, monitors=monitors)
    config = replace(config, reports=SimpleNamespace(send=lambda *report: sent.append(report[-1])))
    rows = pa.record_batch([pa.array(keys), pa.array(np.ones(len(keys), np.int64))], ["key", "value"])
    (packet,) = cut_packets(rows, np.zeros(len(keys), np.int32), 1).column("packet").to_pylist()
    list(run_batch(config, MemoryStore(), 2, [packet], WorkerBatch(3, 1000, 1000), OperatorProgress()))
    list(run_batch(config, MemoryStore(), 1, [], WorkerBatch(3, 1000, 1000), OperatorProgress()))
    of_some, of_none = (report.monitor for report in sent)
    assert of_none is None
    assert len(of_some["keys"]) == len(set(keys))
    assert of_some["sizes"].sum() == len(keys)
    assert 0 < of_some["costs"].sum() <= 1000 * sent[0].busy


def plan(number: int) -> Plan:
    values = {"table_keys": np.array([1, 1 << 63], np.uint64), "table_workers": np.array([0, 2], np.int32)}
    return Plan(number, number - 1, "MIXED workers=3 seed=0", values)


FULL = PlanState(
    3, plan(4), plan(5), 6, b"\0state", frozenset({2, 0}), (Rebalance(5, 17, 0.25, 9, 3.5, keys=2),), {1: 12}, {11: 3}
)


def test_a_plan_state_is_the_same_when_it_is_read_again():
    for state in (PlanState(3), FULL):
        again = PlanState.read(state.save())
        assert again == state
        assert again.save() == state.save()
    assert PlanState(3).pending_workers == 3


def test_a_plan_that_comes_too_late_changes_nothing(tmp_path):
    """Another driver has done the batch meanwhile, and the next one has begun by what it wrote."""
    plans = PlanStateLog(str(tmp_path))
    plans.write(7, PlanState(3))
    plans.write(7, FULL)
    assert plans.at(7) == PlanState(3)


def test_a_batch_sees_the_newest_that_was_written_before_it(tmp_path):
    plans = PlanStateLog(str(tmp_path))
    assert plans.at(7) is None
    assert plans.written_for(7) is None
    plans.write(3, PlanState(3))
    plans.write(7, FULL)
    assert plans.at(2) is None
    assert plans.at(6) == PlanState(3)
    assert plans.at(9) == FULL
    assert plans.written_for(7) == FULL
    assert plans.written_for(8) is None


def test_routers_follow_the_plan_of_their_batch(tmp_path):
    """Not the newest, which was made at the batch's end and is there if the batch runs again."""
    plans = PlanStateLog(str(tmp_path))
    plans.write(7, PlanState(10))
    plans.write(8, FULL)
    routing = Dataflow.of(settings(grouping="MIXED", checkpoint=str(tmp_path))).routing()
    assert routing.plans(7) == PlanState(10)
    assert routing.plans(8) == FULL
