"""Event time: a message from the future is rejected, and closes no windows."""

import time

import pytest

from tests.apps.conftest import by_key, countries, final_counts, publish, records
from unskew.apps.run.run import Run
from unskew.apps.topology.publisher import result_topics
from unskew.apps.topology.sink import Sink
from unskew.apps.topology.source import behind
from unskew.deploy.client.topics import ensure_topic
from unskew.errors import EnvironmentFault

# Since 3.6 a broker has such a bound of its own; not every one has.
LENIENT = {"message.timestamp.after.max.ms": str(2**63 - 1)}

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.xdist_group("spark-2")]


@pytest.mark.full
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
    counts = by_key(final_counts(connection, result_topics(far)["aggregator"]))
    # what is within the bound may still close windows, and what then comes late is counted
    assert counts["a"] + totals.late == 39
    assert totals.rejected == 1
    [(key, value)] = records(connection, result_topics(far)["rejected"])
    assert key == f"{topic}-0-5"
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms[10] // 1000))
    assert value["reason"] == f"timestamp {stamp}.{ms[10] % 1000:03d}Z is more than 3600 s ahead"


@pytest.mark.full
def test_with_a_bound_nothing_is_lost(settings, drain, connection, topic):
    now = round(1000 * time.time())
    ms = [now + i for i in range(40)]
    ms[10] = now + 600_000
    publish(connection, topic, 2, countries(["a"] * 40), ms=ms)
    run = settings("KEY", time="event", max_tuples=8, max_ahead=300.0, run_time=600.0)
    _, reports = drain(run)
    assert by_key(final_counts(connection, result_topics(run)["aggregator"])) == {"a": 39}
    assert (reports[-1].totals.late, reports[-1].totals.rejected) == (0, 1)


@pytest.mark.takes(20)
def test_a_slow_clock_rejects_no_stream(settings, drain, caplog, connection, topic):
    """Two hours slow: all messages are as far ahead of the clock. One is so of the others, too."""
    there = round(1000 * time.time()) + 7_200_000
    ms = [there + i for i in range(40)]
    ms[10] = there + 7_200_000
    ensure_topic(connection, topic, 2, LENIENT)
    publish(connection, topic, 2, countries(["a"] * 40), ms=ms)
    slow = settings("KEY", time="event", max_tuples=16, run_time=600.0)
    drain(slow)
    assert "behind the topic's newest messages: batch time goes on from there" in caplog.text
    assert by_key(final_counts(connection, result_topics(slow)["aggregator"])) == {"a": 39}
    [(key, value)] = records(connection, result_topics(slow)["rejected"])
    assert key == f"{topic}-0-5"
    assert value["reason"].endswith("is more than 3600 s ahead")
    assert len([line for line in caplog.messages if "batch time goes on" in line]) == 1


@pytest.mark.full
@pytest.mark.takes(20)
def test_a_batch_that_runs_again_rejects_what_it_rejected(settings, spark, drain, connection, topic, monkeypatch):
    there = round(1000 * time.time()) + 7_200_000
    ensure_topic(connection, topic, 2, LENIENT)
    publish(connection, topic, 2, countries(["early"] * 4), ms=[there] * 4)  # too few to contradict the clock
    run = settings("KEY", time="event", run_time=600.0)
    call = Sink.__call__

    def dies(sink, df, batch):
        call(sink, df, batch)
        if batch.start != batch.end:
            raise RuntimeError

    first = Run(run, [])
    monkeypatch.setattr(Sink, "__call__", dies)
    with pytest.raises(EnvironmentFault, match="the query failed"):
        first.run(spark)
    monkeypatch.setattr(Sink, "__call__", call)
    before = records(connection, result_topics(run)["rejected"])
    assert len(before) == 4
    publish(connection, topic, 2, countries(["a"] * 40), ms=[there + i for i in range(40)])
    _, reports = drain(run)
    assert by_key(final_counts(connection, result_topics(run)["aggregator"])) == {"a": 40}
    assert dict(records(connection, result_topics(run)["rejected"])) == dict(before)
    assert reports[-1].totals.rejected == 4


def test_few_messages_and_wrong_ones_do_not_contradict_a_clock(settings, connection, topic):
    now = round(1000 * time.time())
    ensure_topic(connection, topic, 2, LENIENT)
    run = settings("KEY", time="event")
    publish(connection, topic, 2, countries(["a"] * 9), ms=[now + 7_200_000] * 9)
    assert behind(run, now) is None
    publish(connection, topic, 2, countries(["a"] * 2), ms=[now] * 2)
    assert behind(run, now) == 0
    publish(connection, topic, 2, countries(["a"] * 100), ms=[now + 7_200_000] * 100)
    assert behind(run, now) == 7_200_000


@pytest.mark.full
def test_where_the_broker_gives_the_times_none_is_of_the_future(settings, drain, connection, topic):
    ensure_topic(connection, topic, 2, {"message.timestamp.type": "LogAppendTime"})
    publish(connection, topic, 2, countries(["a"] * 40))
    run = settings("KEY", time="event", max_ahead=0.0, run_time=600.0)
    assert behind(run, 0) == 0, "no batch has to look again"
    _, reports = drain(run)
    assert (reports[-1].totals.routed, reports[-1].totals.rejected) == (40, 0)
