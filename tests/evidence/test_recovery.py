"""The figures of recovery in the campaign of faults: the next committed batch, and the lag of before."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from evidence.faults.campaign import Campaign
from evidence.faults.course import Course
from evidence.faults.faults import KINDS, Fault
from evidence.faults.recovery import Lag, Lags, caught_up, lag_before

RATE, MOST = 100, 300  # messages/s: those that come, and those that batches take at most
PERIOD = 2.0  # s from one batch to the next


def test_the_lag_before_a_fault_is_the_largest_of_ten_seconds():
    lags = [Lag(0.0, 900), Lag(5.0, 40), Lag(9.0, 70), Lag(14.0, 20), Lag(16.0, 500)]
    assert lag_before(lags, 15.0) == 70
    assert lag_before(lags, 10.0) == 900
    assert lag_before(lags[:1], 15.0) is None


def test_a_run_has_caught_up_when_its_lag_is_the_one_before():
    lags = [Lag(1.0, 50), Lag(2.0, 10), Lag(9.0, 800), Lag(10.0, 51), Lag(11.0, 50), Lag(12.0, 700)]
    assert caught_up(lags, 50, since=3.0) == 11.0
    assert caught_up(lags, 51, since=3.0) == 10.0
    assert caught_up(lags, 50, since=11.5) is None


def test_lags_are_noted_once_while_they_are_fresh():
    lags = Lags()
    lags.note(None, 0, 1.0)
    lags.note(Lag(1.0, 100), 30, 1.1)
    lags.note(Lag(1.0, 100), 60, 1.6)  # the same look at the topic
    lags.note(Lag(2.0, 200), 60, 9.0)  # the broker hasn't answered since
    lags.note(Lag(9.0, 5), 60, 9.0)  # of a topic that was made again
    assert lags.seen == [Lag(1.0, 70), Lag(9.0, 0)]
    lags.forget(2.0)
    assert lags.seen == [Lag(9.0, 0)]


class Play:
    """A stage whose time passes when it is told so. Messages come at a rate; unless it is down, batches take them."""

    def __init__(self, most=MOST):
        self.now = 1000.0
        self.most = most
        self.produced = self.taken = 0.0
        self.batches_done = 0
        self.down = self.bursting = False
        self.burst_until = 0.0
        self.campaign: Any = None
        self.disk, self.connection, self.folder = "", None, None
        self.driver = SimpleNamespace(planned=lambda: self.batches_done, committed=lambda: self.batches_done)
        self.batches = SimpleNamespace(taken=lambda: {0: self.taken})

    def pass_time(self, seconds):
        self.now += seconds
        self.produced += RATE * seconds
        self.bursting = self.now < self.burst_until
        if self.bursting:
            self.produced += 10 * RATE * seconds
        if not self.down and self.now // PERIOD > (self.now - seconds) // PERIOD:
            self.batches_done += 1
            self.taken = min(self.produced, self.taken + self.most * PERIOD)
        self.campaign._produced.newest = Lag(self.now, self.produced)


@pytest.fixture
def play(monkeypatch):
    """Plays a campaign of one fault, after ten seconds without: a function of the stage, the fault, and its effects."""

    def played(stage, fault, begin, end):
        course = Course()
        stage.campaign = Campaign(stage, 1, (), course, print, lambda: None)
        monkeypatch.setattr("evidence.faults.campaign.time", SimpleNamespace(monotonic=lambda: stage.now))

        def inflict(*_):
            begin()
            return end

        monkeypatch.setitem(KINDS, fault.kind, replace(KINDS[fault.kind], inflict=inflict))
        stage.campaign._pass(10.0)
        stage.campaign._carry_out(1, fault)
        return course

    return played


def test_an_outage_is_over_at_the_next_batch_and_caught_up_later(play):
    stage = Play()
    course = play(
        stage,
        Fault("broker-unreachable", 0.0, 20.0, 0.5, beside=False),
        lambda: setattr(stage, "down", True),
        lambda: setattr(stage, "down", False),
    )
    (again,), (caught,) = course.recoveries["broker-unreachable"], course.catch_ups["broker-unreachable"]
    assert 0 < again <= PERIOD + 0.2
    # Of a backlog of 20 s each batch takes 4 s more than has come.
    assert caught == pytest.approx(20 * RATE / (MOST - RATE), abs=2 * PERIOD)
    assert not course.behind
