"""A clock that is set back, or ahead: no tuple is late because of it, and windows go by the brokers' clock."""

import logging
import re
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.apps.conftest import LENIENT, count_by_key, countries, publish
from tests.apps.local_settings import settings as local_settings
from unskew.apps.aggregator.publisher import list_result_topics
from unskew.apps.checkpoint.checkpoint import Batch, Checkpoint
from unskew.apps.checkpoint.lease import Lease
from unskew.apps.checkpoint.versions import BatchClock
from unskew.apps.cli.result_topics.reader import Record, RecordSelection
from unskew.apps.driver import clock_supervisor
from unskew.apps.driver.clock_supervisor import ClockSupervisor
from unskew.apps.driver.streaming_job import StreamingJob
from unskew.kafka.reader import TopicReader
from unskew.kafka.topics import ensure_topic
from unskew.operators import Statistics

HOUR = 3_600_000  # ms


def test_what_a_replay_finds(tmp_path):
    clock = BatchClock(str(tmp_path))
    assert clock.ahead_ms == 0
    clock.set_ahead(7, 100)
    clock.set_ahead(9, 20)
    assert clock.ahead_ms == BatchClock(str(tmp_path)).ahead_ms == 20


@pytest.mark.parametrize(("seconds", "back"), [(0.5, False), (-0.5, False), (3600, False), (-3600, True)])
def test_a_query_begins_again_when_its_clock_was_set_back(tmp_path, monkeypatch, seconds, back):
    """A clock that goes back by less than a second is slewed."""
    clock, run = time.time, local_settings(checkpoint=str(tmp_path))
    clocks = ClockSupervisor(run, Lease(run.location))
    clocks.begin_query(BatchClock(run.location), 0)
    assert not clocks.is_set_back()
    monkeypatch.setattr(time, "time", lambda: clock() + seconds)
    assert (clocks.is_set_back(), clocks.restarts) == (back, back)
    clocks.begin_query(BatchClock(run.location), 0)
    assert (clocks.is_set_back(), clocks.restarts) == (False, False)
    monkeypatch.setattr(time, "time", lambda: clock() + seconds - 3600)
    assert clocks.is_set_back(), "also one that was put on before"


def by_a_clock_that_was_ahead(checkpoint: str) -> None:
    """Make of a checkpoint what a driver whose clock was an hour ahead would have left."""
    for log in ("offsets", "commits"):
        for entry in Path(checkpoint, log).glob("[0-9]*"):
            times = re.compile(r'"(batchWatermarkMs|batchTimestampMs|nextBatchWatermarkMs)":([1-9]\d*)')
            entry.write_text(times.sub(lambda m: f'"{m[1]}":{int(m[2]) + HOUR}', entry.read_text()))
            entry.with_name(f".{entry.name}.crc").unlink()


@pytest.mark.nightly(group="groupings")
@pytest.mark.parametrize("grouping", ["SHUFFLE", "DYNAMIC_KEY"])
def test_another_driver_whose_clock_is_behind(settings, drain, connection, topic, grouping):
    publish(connection, topic, 2, countries(["a", "b"] * 50))
    run = settings(grouping, window=0.5, run_time=600.0, max_tuples=60)
    drain(run)
    by_a_clock_that_was_ahead(run.checkpoint)
    publish(connection, topic, 2, countries(["b", "c"] * 50))
    _, reports = drain(run)
    assert count_by_key(run) == Counter(a=50, b=100, c=50)
    assert reports[-1].totals.late == 0
    times = [report.batch.time_ms for report in reports]
    assert times == sorted(times)
    assert times[0] > 1000 * time.time() + HOUR / 2, "time goes on from where it was"
    assert Checkpoint(run.checkpoint).clock.ahead_ms > HOUR / 2
    # …and again after another restart
    publish(connection, topic, 2, countries(["d"] * 10))
    _, more = drain(run)
    assert more[0].batch.time_ms >= times[-1]
    assert count_by_key(run)["d"] == 10


@pytest.mark.nightly(group="groupings")
@pytest.mark.parametrize(("early", "late"), [(0, -5), (5, 0)], ids=["right before", "ahead before"])
def test_a_clock_set_back_under_a_run(settings, spark, connection, topic, monkeypatch, early, late):
    """Spark would wait until its next trigger's time comes again: the query is started anew instead."""
    publish(connection, topic, 2, countries(["a"] * 300))
    clock, reports, progress = time.time, [], []
    # Once the query runs the clock is set forward, or not, and later set back.
    monkeypatch.setattr(time, "time", lambda: clock() + (0, early, late)[min(len(reports), 2)])
    run = settings("SHUFFLE", window=0.5, run_time=600.0, max_tuples=50)
    assert StreamingJob(run, [reports.append], [progress.append]).run(spark).drained
    assert len({each["runId"] for each in progress}) == 2
    numbers = [report.batch.number for report in reports]
    assert numbers == sorted(set(numbers))
    assert count_by_key(run) == {"a": 300}


@pytest.mark.ci
@pytest.mark.takes(30)
def test_the_valid_result_is_that_of_the_latest_batch(settings, spark, connection, topic, monkeypatch):
    """By event time, though each driver's clock is behind that of the one before."""
    run = settings(
        "KEY", time="event", window=60.0, work=Statistics("offset"), max_tuples=100, until_drained=False, run_time=120.0
    )
    results = list_result_topics(run)["results"]
    now = round(1000 * time.time()) // 60_000 * 60_000
    runs, reports = [], []

    def stop(report):
        reports.append(report)
        if report.totals.routed == 100 * len(runs):
            runs[-1].stop()

    BatchClock(run.checkpoint).set_ahead(0, HOUR // 3)
    for n, (ahead_ms, checkpoint) in enumerate([(HOUR // 3, ""), (HOUR // 6, ""), (0, "-new")], 1):
        publish(connection, topic, 2, countries(["a"] * 100), ms=[now + i for i in range(100)])
        monkeypatch.setattr(clock_supervisor, "broker_time", lambda *_, of=ahead_ms: round(1000 * time.time()) + of)
        runs.append(StreamingJob(replace(run, checkpoint=f"{run.checkpoint}{checkpoint}"), [stop]))
        runs[-1].run(spark)
        with TopicReader(connection, results) as reader:
            selection = RecordSelection()
            selection.add(map(Record.of, reader.to_end()))
        [[record]] = [kept.values() for kept in selection.windows.values()]
        assert record.parse()["fields"]["count"] == 100 * n
    assert reports[0].batch.time_ms > reports[-1].batch.time_ms, "the last batch has an earlier time"


YEARS = 10 * 8760 * HOUR


def supervise(settings, connection, topic, unplanned=0, by="batch"):
    """What watches over the clocks of a run as its query begins, and the checkpoint's clock."""
    ensure_topic(connection, topic, 2, LENIENT)
    run = settings("KEY", time=by)
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


def test_brokers_that_give_no_answer_are_asked_again(settings, connection, topic, monkeypatch):
    now = round(1000 * time.time())
    clocks, clock = supervise(settings, connection, topic, by="event")
    publish(connection, topic, 2, countries(["a"]), ms=[now + 2 * HOUR])
    answers = [None, now + HOUR]
    monkeypatch.setattr(clock_supervisor, "broker_time", lambda *_: answers.pop(0))
    monkeypatch.setattr(clock_supervisor, "_ASK_EVERY", 0.0)
    batch = Batch(1, now, 0, 0, {topic: {"0": 0}}, {topic: {"0": 1}})
    assert not clocks.change_lead(batch)
    assert clocks.change_lead(batch)
    assert abs(clock.ahead_ms - HOUR) < HOUR / 60
    assert not clocks.change_lead(batch)
    assert not answers
