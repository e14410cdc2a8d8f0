"""What arrives in Kafka's partitions, from Spark's progress."""

import pytest

from tests.apps.metrics.live_view import progress
from unskew.apps.metrics import catalogue
from unskew.apps.metrics.metrics_reporter import sample_arrivals
from unskew.apps.metrics.partition_arrivals import ArrivalMeter, find_hot


def test_rates_shares_and_velocities():
    meter = ArrivalMeter()
    assert meter.add(progress([100, 100], [100, 50])) is None
    found = meter.add(progress([200, 400], [200, 250], seconds=10))
    assert found.rates == {"0": 10.0, "1": 30.0}
    assert found.shares == {"0": 0.25, "1": 0.75}
    assert found.velocities == {"0": 0.0, "1": 10.0}
    assert found.skew == 1.5
    assert found.hot == [], "none of two can stand out by two deviations"


def test_the_last_minute_counts():
    meter = ArrivalMeter()
    for second in range(0, 200, 10):
        early, late = 5 * min(second, 100), max(0, second - 100)
        found = meter.add(progress([early, late], seconds=second))
    assert found.rates == {"0": 0.0, "1": 1.0}


def test_a_partition_that_is_new_and_a_topic_without_arrivals():
    meter = ArrivalMeter()
    meter.add(progress([10]))
    assert meter.add(progress([10, 50], seconds=10)).rates == {"0": 0.0, "1": 5.0}
    meter = ArrivalMeter()
    meter.add(progress([10, 10]))
    found = meter.add(progress([10, 10], seconds=10))
    assert (found.shares, found.skew, found.hot) == ({"0": 0.0, "1": 0.0}, 1.0, [])


@pytest.mark.parametrize(
    "between", [[progress([7, 0], seconds=200)], [progress([10, 10], seconds=-5)], [progress(None, [0], seconds=5)] * 3]
)
def test_what_is_begun_anew_or_left_out(between):
    """A topic that was made again, a clock that was set back, and a batch for which Kafka wasn't asked."""
    meter = ArrivalMeter()
    meter.add(progress([10, 10]))
    assert [meter.add(each) for each in between] == [None] * len(between)
    at = 300 if between[0]["sources"][0]["latestOffset"] else 0
    meter.add(progress([10, 10], seconds=at))
    assert meter.add(progress([10, 20], seconds=at + 10)).rates == {"0": 0.0, "1": 1.0}


def test_hot_partitions():
    assert find_hot([10] * 9 + [100]).nonzero()[0].tolist() == [9]
    assert not find_hot([10] * 10).any()
    assert not find_hot([100] * 50 + [101]).any(), "by chance"
    assert not find_hot([0, 0, 0, 0, 100]).any(), "of five"
    assert find_hot([0, 0, 0, 0, 0, 100]).any(), "of six"


def test_samples_of_each_partition():
    meter = ArrivalMeter()
    meter.add(progress([0] * 8))
    samples = list(sample_arrivals(meter.add(progress([1] * 7 + [93], seconds=1)), 5))
    assert all(sample.subject == catalogue.SOURCE for sample in samples)
    assert [sample.labels["source"] for sample in samples if sample.values["hot"]] == ["7"]
    assert samples[7].values == {"arrival_rate": 93.0, "lag_velocity": 0.0, "hot": 1, "share": 0.93}
