"""Event time: a message from the future is rejected, not let to close all windows."""

import time

import pytest

from tests.apps.conftest import by_key, countries, final_counts, publish, records
from unskew.apps.topology.publisher import result_topics
from unskew.deploy.client.topics import ensure_topic

# Since 3.6 a broker has such a bound of its own; not every one has.
LENIENT = {"message.timestamp.after.max.ms": str(2**63 - 1)}

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


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
    [(key, said)] = records(connection, result_topics(far)["rejected"])
    assert key == f"{topic}-0-5"
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms[10] // 1000))
    assert said["reason"] == f"timestamp {stamp}.{ms[10] % 1000:03d}Z is more than 3600 s ahead"


def test_with_a_bound_nothing_is_lost(settings, drain, connection, topic):
    now = round(1000 * time.time())
    ms = [now + i for i in range(40)]
    ms[10] = now + 600_000
    publish(connection, topic, 2, countries(["a"] * 40), ms=ms)
    run = settings("KEY", time="event", max_tuples=8, max_ahead=300.0, run_time=600.0)
    _, reports = drain(run)
    assert by_key(final_counts(connection, result_topics(run)["aggregator"])) == {"a": 39}
    assert (reports[-1].totals.late, reports[-1].totals.rejected) == (0, 1)
