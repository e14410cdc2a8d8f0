"""Event time: a message from the future is rejected, and closes no windows."""

import time

import pytest

from evidence.faults.preloaded import Clock as PreloadedClock
from tests.apps.conftest import LENIENT, count_by_key, countries, publish, read_results
from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.apps.driver import clock_supervisor
from unskew.apps.splitter.kafka_source import is_contradicted
from unskew.deploy.servers.broker import Broker
from unskew.kafka.clock import broker_time
from unskew.kafka.connection import Connection
from unskew.kafka.topics import ensure_topic

HOUR = 3_600_000  # ms
DAY = 24 * HOUR

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.mark.nightly(group="groupings")
@pytest.mark.parametrize("source_type", ["COUNTRY_SKEW_R80", "TWITTER_ELECTION"])
def test_a_message_from_the_future_is_rejected(settings, drain, connection, topic, source_type):
    now = round(1000 * time.time())
    values = countries(["a"] * 40)
    if source_type == "TWITTER_ELECTION":
        values = [b'{"hashtags":["a"]}'] * 40
    ms = [now + i for i in range(40)]
    ms[10] = now + 7_200_000
    ms[11] = now + 3_000_000  # less than an hour
    ensure_topic(connection, topic, 2, LENIENT)
    publish(connection, topic, 2, values, ms=ms)
    far = settings("KEY", source_type=source_type, time="event", max_tuples=16, run_time=600.0)
    _, reports = drain(far)
    totals = reports[-1].totals
    # what is within the bound may still close windows, and what then comes late is counted
    assert count_by_key(far)["a"] + totals.late == 39
    assert totals.rejected == 1
    [(key, value)] = read_results(far, "rejected")
    assert key == f"{topic}-0-5"
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms[10] // 1000))
    assert value["reason"] == f"timestamp {stamp}.{ms[10] % 1000:03d}Z is more than 3600 s ahead"


@pytest.mark.nightly(group="groupings")
def test_with_a_bound_nothing_is_lost(settings, drain, connection, topic):
    now = round(1000 * time.time())
    ms = [now + i for i in range(40)]
    ms[10] = now + 600_000
    publish(connection, topic, 2, countries(["a"] * 40), ms=ms)
    run = settings("KEY", time="event", max_tuples=8, max_ahead=300.0, run_time=600.0)
    _, reports = drain(run)
    assert count_by_key(run) == {"a": 39}
    assert (reports[-1].totals.late, reports[-1].totals.rejected) == (0, 1)


@pytest.mark.ci
@pytest.mark.takes(20)
def test_no_producer_puts_the_clock_on(settings, drain, caplog, connection, topic):
    """All newest messages are from the future when the run starts again: they are rejected, and no others."""
    ensure_topic(connection, topic, 2, LENIENT)
    run = settings("KEY", time="event", run_time=600.0)
    for there, keys in ((0, "a" * 200), (10 * DAY, "b" * 100), (0, "c" * 200)):
        now = round(1000 * time.time())
        publish(connection, topic, 2, countries([*keys]), ms=[now + there] * len(keys))
        _, reports = drain(run)
    assert count_by_key(run) == {"a": 200, "c": 200}
    totals = reports[-1].totals
    assert (totals.late, totals.rejected, Checkpoint(run.checkpoint).clock.ahead_ms) == (0, 100, 0)
    assert "batch time" not in caplog.text


@pytest.fixture
def ahead(tmp_path, monkeypatch):
    """A broker whose clock is two hours ahead of ours."""
    clock = PreloadedClock(tmp_path)
    clock.shift(2 * HOUR / 1000)
    with monkeypatch.context() as patch:
        for name, value in clock.environment.items():
            patch.setenv(name, value)
        broker = Broker(tmp_path / "broker")
        broker.start()
    yield Connection(broker.bootstrap_servers)
    broker.stop()


@pytest.mark.nightly(group="groupings")
@pytest.mark.takes(40)
@pytest.mark.skipif(not PreloadedClock.possible(), reason="needs Linux and a C compiler")
def test_a_slow_clock_goes_by_the_brokers_and_is_put_back(settings, drain, caplog, ahead, topic):
    """All messages are two hours ahead of our clock, as the brokers' clock is. One is so of the others, too."""
    there = round(1000 * time.time()) + 2 * HOUR
    ms = [there + i for i in range(40)]
    ms[10] = there + 2 * HOUR
    ensure_topic(ahead, topic, 2, LENIENT)
    publish(ahead, topic, 2, countries(["a"] * 40), ms=ms)
    slow = settings("KEY", time="event", max_tuples=16, run_time=600.0, connection=ahead)
    drain(slow)
    assert count_by_key(slow) == {"a": 39}
    [(key, value)] = read_results(slow, "rejected")
    assert key == f"{topic}-0-5"
    assert value["reason"].endswith("is more than 3600 s ahead")
    [line] = [line for line in caplog.messages if "batch time" in line]
    assert line.endswith("behind the brokers' clock: batch time goes on from there")
    clock = Checkpoint(slow.checkpoint).clock
    assert abs(clock.ahead_ms - 2 * HOUR) < HOUR / 60
    clock.set_ahead(Checkpoint(slow.checkpoint).newest_batch(), 240 * HOUR)  # as an earlier version let a producer do
    publish(ahead, topic, 2, countries(["b"] * 40), ms=[there + 10_000] * 40)
    drain(slow)
    assert count_by_key(slow) == {"a": 39, "b": 40}
    assert abs(Checkpoint(slow.checkpoint).clock.ahead_ms - 2 * HOUR) < HOUR / 60
    assert "batch time is no longer 85" in caplog.text


def test_brokers_whose_clock_is_not_to_be_had(connection, topic):
    assert abs(broker_time(connection, topic) - 1000 * time.time()) < HOUR / 60
    ensure_topic(connection, f"{topic}-2", 1, {"message.timestamp.type": "CreateTime"})
    assert broker_time(connection, f"{topic}-2") is None


@pytest.mark.nightly(group="groupings")
@pytest.mark.takes(20)
def test_a_batch_that_runs_again_rejects_what_it_rejected(settings, die_uncommitted, drain, ahead, topic, monkeypatch):
    """Meanwhile the brokers' clock, which was not to be had, says that the rejected messages were right."""
    there = round(1000 * time.time()) + 2 * HOUR
    ensure_topic(ahead, topic, 2, LENIENT)
    publish(ahead, topic, 2, countries(["early"] * 4), ms=[there] * 4)
    run = settings("KEY", time="event", run_time=600.0, connection=ahead)
    with monkeypatch.context() as patch:
        patch.setattr(clock_supervisor, "broker_time", lambda *_: None)
        die_uncommitted(run, lambda report: report.batch.start != report.batch.end)
    before = read_results(run, "rejected")
    assert len(before) == 4
    publish(ahead, topic, 2, countries(["a"] * 40), ms=[there + i for i in range(40)])
    _, reports = drain(run)
    assert count_by_key(run) == {"a": 40}
    assert dict(read_results(run, "rejected")) == dict(before)
    assert reports[-1].totals.rejected == 4


def test_what_contradicts_a_clock(settings, connection, topic):
    now = round(1000 * time.time())
    ensure_topic(connection, topic, 2, LENIENT)
    run = settings("KEY", time="event")
    assert is_contradicted(run, now) is None
    publish(connection, topic, 2, countries(["a"] * 2), ms=[now + HOUR] * 2)
    assert is_contradicted(run, now) is False
    publish(connection, topic, 2, countries(["a"]), ms=[now + 2 * HOUR])
    assert is_contradicted(run, now) is True
    assert is_contradicted(run, now + 2 * HOUR) is False


@pytest.mark.nightly(group="groupings")
def test_where_the_broker_gives_the_times_none_is_of_the_future(settings, drain, connection, topic):
    ensure_topic(connection, topic, 2, {"message.timestamp.type": "LogAppendTime"})
    publish(connection, topic, 2, countries(["a"] * 40))
    run = settings("KEY", time="event", max_ahead=0.0, run_time=600.0)
    assert is_contradicted(run, 0) is False, "no batch has to look again"
    _, reports = drain(run)
    assert (reports[-1].totals.routed, reports[-1].totals.rejected) == (40, 0)
