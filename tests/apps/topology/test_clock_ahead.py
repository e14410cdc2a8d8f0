"""Batch time with a clock that is ahead: windows go by the brokers' clock, until this one is right again."""

import logging
import time

import pytest

from tests.apps.conftest import countries, publish
from unskew.apps.checkpoint.checkpoint import Batch
from unskew.apps.driver import streaming_job as run_
from unskew.apps.driver.streaming_job import StreamingJob

HOUR = 3_600_000  # ms
YEARS = 10 * 8760 * HOUR

pytestmark = pytest.mark.kafka


def begun(settings, unplanned=0):
    """A run as its query begins."""
    run = StreamingJob(settings("KEY", time="batch"), [])
    run._lease.acquire()
    run._unplanned = unplanned
    return run


def batch_of(run, number, planned_ms, watermark_ms=0):
    return Batch(number, planned_ms + run._checkpoint.clock.ahead_ms, watermark_ms, 0, {}, {}, planned_ms)


def test_one_start_with_the_clock_ahead_leaves_nothing_behind(settings, caplog, monkeypatch):
    """The topic is empty, and the first batch has but its heartbeat."""
    clock = time.time
    with caplog.at_level(logging.WARNING), monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: clock() + YEARS / 1000)
        run, wrong = begun(settings), round(1000 * time.time())
        assert run._reset_clock(batch_of(run, 0, wrong))
        run._agreed, run._unplanned = False, 1  # the query begins again, with the batch that is planned
        assert not run._reset_clock(batch_of(run, 0, wrong))
        time_ms = batch_of(run, 0, wrong).time_ms
        assert not run._reset_clock(batch_of(run, 1, wrong + 500, time_ms)), "one batch after the other"
    assert abs(time_ms - 1000 * time.time()) < HOUR / 60
    assert "ahead of the brokers' clock" in caplog.text
    run, right = begun(settings, unplanned=1), round(1000 * time.time())
    assert run._reset_clock(batch_of(run, 1, right, time_ms))
    assert run._checkpoint.clock.ahead_ms == 0
    assert not run._reset_clock(batch_of(run, 1, right, time_ms))


@pytest.mark.parametrize("newest", ["messages", "batch"])
def test_brokers_are_asked_only_if_the_clock_is_doubted(settings, connection, topic, monkeypatch, newest):
    """It isn't if a message, or the batch before, is of the last hour."""
    now = round(1000 * time.time())
    run = begun(settings)
    if newest == "messages":
        publish(connection, topic, 2, countries(["a"]), ms=[now - HOUR // 2])
    monkeypatch.setattr(run_, "broker_time", lambda *_: pytest.fail("asked"))
    assert not run._reset_clock(batch_of(run, 0, now, now - HOUR // 2 if newest == "batch" else 0))


def test_without_the_brokers_clock_it_goes_on(settings, monkeypatch):
    run, asked = begun(settings), []
    monkeypatch.setattr(run_, "broker_time", lambda *_: asked.append(1))
    for _ in range(2):
        assert not run._reset_clock(batch_of(run, 0, round(1000 * time.time())))
    assert asked == [1], "once a query"
