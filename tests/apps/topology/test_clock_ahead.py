"""Batch time with a clock that is ahead: windows go by the brokers' clock, until this one is right again."""

import logging
import time

import pytest

from tests.apps.conftest import countries, publish
from unskew.apps.checkpoint.checkpoint import Batch
from unskew.apps.checkpoint.lease import Lease
from unskew.apps.checkpoint.versions import BatchClock
from unskew.apps.driver import clock_supervisor
from unskew.apps.driver.clock_supervisor import ClockSupervisor
from unskew.kafka.topics import ensure_topic

HOUR = 3_600_000  # ms
YEARS = 10 * 8760 * HOUR


def supervise(settings, connection, topic, unplanned=0):
    """What watches over the clocks of a run as its query begins, and the checkpoint's clock."""
    ensure_topic(connection, topic, 2)
    run = settings("KEY", time="batch")
    lease, clock = Lease(run.location), BatchClock(run.location)
    lease.acquire()
    clocks = ClockSupervisor(run, lease)
    clocks.begin_query(clock, unplanned)
    return clocks, clock


def batch_of(clock, number, planned_ms, watermark_ms=0):
    return Batch(number, planned_ms + clock.ahead_ms, watermark_ms, 0, {}, {}, planned_ms)


def test_one_start_with_the_clock_ahead_leaves_nothing_behind(settings, connection, topic, caplog, monkeypatch):
    """The topic is empty, and the first batch has but its heartbeat."""
    real = time.time
    with caplog.at_level(logging.WARNING), monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: real() + YEARS / 1000)
        (clocks, clock), wrong = supervise(settings, connection, topic), round(1000 * time.time())
        assert clocks.change_lead(batch_of(clock, 0, wrong))
        assert clocks.restarts
        clocks.begin_query(clock, 1)  # the query begins again, with the batch that is planned
        assert not clocks.change_lead(batch_of(clock, 0, wrong))
        time_ms = batch_of(clock, 0, wrong).time_ms
        assert not clocks.change_lead(batch_of(clock, 1, wrong + 500, time_ms)), "one batch after the other"
        assert not clocks.restarts
    assert abs(time_ms - 1000 * time.time()) < HOUR / 60
    assert "ahead of the brokers' clock" in caplog.text
    (clocks, clock), right = supervise(settings, connection, topic, unplanned=1), round(1000 * time.time())
    assert clocks.change_lead(batch_of(clock, 1, right, time_ms))
    assert clock.ahead_ms == 0
    assert not clocks.change_lead(batch_of(clock, 1, right, time_ms))


@pytest.mark.parametrize("newest", ["messages", "batch"])
def test_brokers_are_asked_only_if_the_clock_is_doubted(settings, connection, topic, monkeypatch, newest):
    """It isn't if a message, or the batch before, is of the last hour."""
    now = round(1000 * time.time())
    clocks, clock = supervise(settings, connection, topic)
    if newest == "messages":
        publish(connection, topic, 2, countries(["a"]), ms=[now - HOUR // 2])
    monkeypatch.setattr(clock_supervisor, "broker_time", lambda *_: pytest.fail("asked"))
    assert not clocks.change_lead(batch_of(clock, 0, now, now - HOUR // 2 if newest == "batch" else 0))


def test_without_the_brokers_clock_it_goes_on(settings, connection, topic, monkeypatch):
    (clocks, clock), asked = supervise(settings, connection, topic), []
    monkeypatch.setattr(clock_supervisor, "broker_time", lambda *_: asked.append(1))
    for _ in range(2):
        assert not clocks.change_lead(batch_of(clock, 0, round(1000 * time.time())))
    assert asked == [1], "once a query"
