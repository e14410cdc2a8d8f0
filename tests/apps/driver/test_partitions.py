"""What arrives in Kafka's partitions, from Spark's progress."""

from datetime import UTC, datetime, timedelta

import pytest

from unskew.apps.metrics import catalogue
from unskew.apps.metrics.metrics_reporter import sample_arrivals
from unskew.apps.metrics.partition_arrivals import ArrivalMeter, find_hot

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def progress(seconds, ends, taken=None):
    """Spark's progress of a batch that was planned then, when the partitions had these ends."""
    offsets = {str(partition): end for partition, end in enumerate(ends)}
    of = offsets if taken is None else {str(partition): offset for partition, offset in enumerate(taken)}
    moment = (BEGIN + timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    source = {"description": "KafkaV2[Subscribe[t]]", "endOffset": {"t": of}, "latestOffset": {"t": offsets}}
    return {"timestamp": moment, "sources": [source]}


def replayed(seconds):
    found = progress(seconds, [0])
    found["sources"][0]["latestOffset"] = None
    return found


def test_rates_shares_and_velocities():
    meter = ArrivalMeter()
    assert meter.add(progress(0, [100, 100], [100, 50])) is None
    found = meter.add(progress(10, [200, 400], [200, 250]))
    assert found.rates == {"0": 10.0, "1": 30.0}
    assert found.shares == {"0": 0.25, "1": 0.75}
    assert found.velocities == {"0": 0.0, "1": 10.0}
    assert found.skew == 1.5
    assert found.hot == [], "none of two can stand out by two deviations"


def test_the_last_minute_counts():
    meter = ArrivalMeter()
    for second in range(0, 200, 10):
        early, late = 5 * min(second, 100), max(0, second - 100)
        found = meter.add(progress(second, [early, late]))
    assert found.rates == {"0": 0.0, "1": 1.0}


def test_a_partition_that_is_new_and_a_topic_without_arrivals():
    meter = ArrivalMeter()
    meter.add(progress(0, [10]))
    assert meter.add(progress(10, [10, 50])).rates == {"0": 0.0, "1": 5.0}
    meter = ArrivalMeter()
    meter.add(progress(0, [10, 10]))
    found = meter.add(progress(10, [10, 10]))
    assert (found.shares, found.skew, found.hot) == ({"0": 0.0, "1": 0.0}, 1.0, [])


@pytest.mark.parametrize("between", [[progress(200, [7, 0])], [progress(-5, [10, 10])], [replayed(5)] * 3])
def test_what_is_begun_anew_or_left_out(between):
    """A topic that was made again, a clock that was set back, and a batch for which Kafka wasn't asked."""
    meter = ArrivalMeter()
    meter.add(progress(0, [10, 10]))
    assert [meter.add(each) for each in between] == [None] * len(between)
    at = 300 if between[0]["sources"][0]["latestOffset"] else 0
    meter.add(progress(at, [10, 10]))
    assert meter.add(progress(at + 10, [10, 20])).rates == {"0": 0.0, "1": 1.0}


def test_hot_partitions():
    assert find_hot([10] * 9 + [100]).nonzero()[0].tolist() == [9]
    assert not find_hot([10] * 10).any()
    assert not find_hot([100] * 50 + [101]).any(), "by chance"
    assert not find_hot([0, 0, 0, 0, 100]).any(), "of five"
    assert find_hot([0, 0, 0, 0, 0, 100]).any(), "of six"


def test_samples_of_each_partition():
    meter = ArrivalMeter()
    meter.add(progress(0, [0] * 8))
    samples = list(sample_arrivals(meter.add(progress(1, [1] * 7 + [93])), 5))
    assert all(sample.subject == catalogue.SOURCE for sample in samples)
    assert [sample.labels["source"] for sample in samples if sample.values["hot"]] == ["7"]
    assert samples[7].values == {"arrival_rate": 93.0, "lag_velocity": 0.0, "hot": 1, "share": 0.93}
