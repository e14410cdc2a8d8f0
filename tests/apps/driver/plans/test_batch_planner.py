"""Plans that sources ask for at a batch's beginning, without Spark: one plan a batch, however often it is asked for."""

import secrets
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest

from tests.apps.driver.plans.imitation import Imitation, Memory, stream
from tests.waiting import PATIENCE, awaited
from unskew.apps.checkpoint.plan_states import PlanStateLog
from unskew.apps.driver.plans import batch_planner
from unskew.apps.driver.plans.batch_planner import BatchPlanner
from unskew.apps.driver.plans.feedback_loop import require_known_plans
from unskew.apps.driver.plans.plan_service import ListenAddress, PlanService, get_plan_service
from unskew.errors import EnvironmentFault
from unskew.grouping.feedback_loop import PlanState
from unskew.loopback import LOOPBACK

BATCHES = 5


@pytest.fixture
def measured(tmp_path):
    """A query's loop, and the reports of its batches."""
    imitation = Imitation(str(tmp_path / "imitation"), "MIXED")
    reports = {}
    for batch, keys in enumerate(stream(BATCHES)):
        imitation.run(batch, keys)
        reports[batch] = imitation.reports
    return imitation.loop, reports


@contextmanager
def driver(measured, checkpoint, planned=lambda _: None):
    """A driver with one call. What its sources ask with."""
    with closing(PlanService(ListenAddress(LOOPBACK))) as calls:
        yield made(calls, measured, checkpoint, planned)


def made(calls, measured, checkpoint, planned=lambda _: None):
    """A call more of a driver."""
    loop, reports = measured
    return BatchPlanner(loop, checkpoint, Memory(reports), planned).join(calls)


def test_all_sources_of_a_batch_get_the_plan_that_is_written(measured, tmp_path):
    checkpoint, planned = str(tmp_path / "own"), []
    with driver(measured, checkpoint, planned.append) as ask, ThreadPoolExecutor(4) as pool:
        for batch in range(BATCHES):
            states = {each.save() if each else b"" for each in pool.map(ask, [batch] * 4)}
            written = PlanStateLog(checkpoint).written_for(batch)
            assert states == {written.save() if written else b""}
            assert (written is None) == (batch == 0), "no batch comes before the first"
        awaited(lambda: len(planned) == BATCHES, "the last batch's tidying")
    assert PlanStateLog(checkpoint).at(BATCHES - 1).active.number >= 1


def test_the_next_driver_gives_what_is_written(measured, tmp_path):
    """The one before has died, and its reports with it. The plan stays, and goes on with the next reports."""
    checkpoint = str(tmp_path / "own")
    with driver(measured, checkpoint) as ask:
        before = [ask(batch) for batch in range(3)]
    loop, reports = measured
    with driver((loop, {3: reports[3]}), checkpoint) as ask:
        assert ask(2) == before[2]
        lost = ask(3)
        assert (lost.active, lost.controller) == (before[2].active, before[2].controller)
        assert ask(4).controller != lost.controller
    with pytest.raises(EnvironmentFault, match="can't reach the query's planner"):
        ask(5)


def test_a_second_driver_on_the_checkpoint_is_refused(measured, tmp_path):
    """Its plans would be the other's, whose keys move otherwise. What the other has written stays."""
    checkpoint = str(tmp_path / "own")
    with driver(measured, checkpoint) as first, driver(measured, checkpoint) as second:
        assert first(0) is second(0) is None
        written = first(1)
        for _ in range(2):  # Spark tries a task again
            with pytest.raises(EnvironmentFault, match=r"plan of batch 1 in .* isn't this call's own: .* one call"):
                second(1)
        assert (first(1), first(2).workers) == (written, written.workers)


@pytest.mark.parametrize("before", [0, 3])
def test_two_calls_in_a_query_are_refused_in_its_first_batch(measured, tmp_path, monkeypatch, before):
    """Also after a restart, where the first batch's plan is written already, so that either call would adopt it."""
    checkpoint = str(tmp_path / "own")
    with driver(measured, checkpoint) as ask:
        for batch in range(before):
            ask(batch)
    with closing(PlanService(ListenAddress(LOOPBACK))) as calls:
        first, second = (made(calls, measured, checkpoint) for _ in range(2))
        monkeypatch.setattr(batch_planner, "get_run_id", lambda: "a run")
        batch = max(before - 1, 0)
        plan = first(batch)
        for _ in range(2):  # Spark tries a task again
            with pytest.raises(
                EnvironmentFault, match=rf"plan of batch {batch} in .* isn't this call's own: .* one call"
            ):
                second(batch)
        assert first(batch) == plan


def test_a_later_run_may_go_on_by_another_call(measured, tmp_path, monkeypatch):
    """As when a program makes its query again in the same process after it has failed. The first call is forgotten."""
    checkpoint = str(tmp_path / "own")
    with closing(PlanService(ListenAddress(LOOPBACK))) as calls:
        first, second = (made(calls, measured, checkpoint) for _ in range(2))
        monkeypatch.setattr(batch_planner, "get_run_id", lambda: "a run")
        plans = [first(batch) for batch in range(3)]
        monkeypatch.setattr(batch_planner, "get_run_id", lambda: "another run")
        assert second(2) == plans[2]
        second(3)
        with pytest.raises(EnvironmentFault, match="a later query has gone on from this call's checkpoint"):
            first(4)
        assert len(calls._calls) == 1


def test_a_process_has_one_thread_for_all_calls(measured, tmp_path):
    place = ListenAddress(LOOPBACK)
    assert get_plan_service(place) is get_plan_service(place)
    before = threading.active_count()
    asks = [made(get_plan_service(place), measured, str(tmp_path / str(number))) for number in range(9)]
    assert threading.active_count() == before
    assert [ask(0) for ask in asks] == [None] * 9


def test_a_batch_whose_answer_was_lost_is_begun_again(measured, tmp_path, monkeypatch):
    """The driver fails after it has written the plan. That is its own, however often it is asked."""
    checkpoint, begin = str(tmp_path / "own"), batch_planner.begin_batch

    def broken(*of):
        begin(*of)
        raise OSError("no answer")

    with driver(measured, checkpoint) as ask:
        assert ask(0) is None
        with monkeypatch.context() as patch:
            patch.setattr(batch_planner, "begin_batch", broken)
            with pytest.raises(EnvironmentFault, match="planner has no plan: OSError: no answer"):
                ask(1)
        assert ask(1) == PlanStateLog(checkpoint).written_for(1)


def test_nobody_waits_for_what_follows_a_plan(measured, tmp_path):
    checkpoint, answered = str(tmp_path / "own"), threading.Event()
    waited = []
    with driver(measured, checkpoint, lambda _: waited.append(answered.wait(PATIENCE))) as ask:
        assert [ask(0) for _ in range(2)] == [None, None]
        answered.set()
        assert awaited(lambda: waited) == [True]


def test_lost_reports_are_of_no_worker(measured, tmp_path):
    """What workers have reported of the pending plan before may be older than their files are now."""
    checkpoint, (loop, _) = str(tmp_path / "own"), measured
    state = PlanState(loop.workers, pending=None, released=frozenset({1}), pending_files={1: 0})
    PlanStateLog(checkpoint).write(1, state)
    with driver((loop, {}), checkpoint) as ask:
        found = ask(2)
    assert (found.released, dict(found.pending_files)) == (frozenset(), {})


def test_a_plan_that_fails_is_told_and_made_when_it_is_asked_again(measured, tmp_path, monkeypatch):
    checkpoint = str(tmp_path / "own")
    with driver(measured, checkpoint) as ask:
        with monkeypatch.context() as patch:
            patch.setattr(batch_planner, "begin_batch", lambda *_: secrets.token_bytes(-1))
            with pytest.raises(EnvironmentFault, match="query's planner has no plan: ValueError"):
                ask(1)
        assert ask(1).controller, "it is made of the reports that were there"
    stranger = replace(ask, address=replace(ask.address, secret=b"another"))
    with pytest.raises(EnvironmentFault, match="can't reach"):
        stranger(1)


def test_states_that_another_plan_has_moved_are_refused(measured, tmp_path):
    checkpoint, (loop, _) = str(tmp_path / "own"), measured
    with driver(measured, checkpoint) as ask:
        for batch in range(3):
            ask(batch)
    moving = replace(loop, moving=True)
    require_known_plans(moving, checkpoint)
    other = replace(moving, router=Imitation("", "CONSISTENT_HASH").routing.router)
    with pytest.raises(EnvironmentFault, match=r"lie as a plan for \(MIXED.*this version has \(CONSISTENT_HASH"):
        require_known_plans(other, checkpoint)
