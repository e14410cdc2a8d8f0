"""How many rows go to Python at a time: as many as samples of the topic allow."""

import pytest

from tests.apps.conftest import count_by_key, countries, publish
from unskew.apps.driver.streaming_job import StreamingJob
from unskew.apps.splitter.kafka_source import MOST_BYTES, MOST_ROWS, MOST_TUPLES, set_portions

ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
UNCHECKED = 2**31 - 1


@pytest.fixture(autouse=True)
def restored(spark):
    before = {name: spark.conf.get(name) for name in (ROWS, BYTES)}
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.mark.parametrize(
    ("changes", "samples", "wanted"),
    [
        ({}, [b"x" * 20] * 3, (MOST_ROWS, UNCHECKED)),
        ({}, [b"x" * 20, b"x" * 100_000], (MOST_BYTES // 400_000, UNCHECKED)),
        ({}, [b"x" * (MOST_BYTES + 1)], (1, UNCHECKED)),
        ({}, [b""], (MOST_ROWS, UNCHECKED)),
        ({}, [], (MOST_ROWS, MOST_BYTES)),
        ({"work_columns": ("offset",)}, [b"x"], (MOST_ROWS, UNCHECKED)),
        ({"work_columns": ("value",)}, [b"x"], (MOST_ROWS, MOST_BYTES)),
        ({"max_tuples": MOST_TUPLES + 1}, [b"x"], (MOST_ROWS, MOST_BYTES)),
    ],
)
def test_it_goes_by_the_largest_sample_or_spark_looks(spark, settings, changes, samples, wanted):
    largest = set_portions(spark, settings(**changes), samples)
    rows, size = int(spark.conf.get(ROWS)), int(spark.conf.get(BYTES))
    assert (rows, size) == wanted
    assert largest == (None if size == MOST_BYTES else MOST_BYTES // rows)


def test_what_the_user_says_stays(spark, settings):
    spark.conf.set(BYTES, "1000000")
    assert set_portions(spark, settings(conf={BYTES: "1000000"}), [b"x" * 2000]) is None
    assert (int(spark.conf.get(ROWS)), int(spark.conf.get(BYTES))) == (MOST_BYTES // 8000, 1_000_000)
    spark.conf.set(ROWS, "100")
    assert set_portions(spark, settings(conf={ROWS: "100"}), [b"x" * 2000]) == MOST_BYTES // 100


@pytest.mark.nightly(group="groupings")
def test_large_messages_come_few_at_a_time(spark, settings, drain, connection, topic):
    text = "x" * 500_000
    publish(connection, topic, 2, [f'{{"country": "{i % 3}", "text": "{text}"}}'.encode() for i in range(60)])
    run = settings()
    drain(run)
    assert int(spark.conf.get(ROWS)) == MOST_BYTES // (4 * 500_033)
    assert count_by_key(run) == dict.fromkeys("012", 20)


@pytest.mark.ci
@pytest.mark.takes(20)
def test_a_burst_of_large_messages_is_counted_in_bytes(spark, settings, caplog, connection, topic):
    small, text = countries(["a", "b"] * 50), "x" * 40_000
    publish(connection, topic, 2, small)
    large = [f'{{"country": "{i % 3}", "text": "{text}"}}'.encode() for i in range(60)]
    limits = []

    def burst(report):
        limits.append((int(spark.conf.get(ROWS)), int(spark.conf.get(BYTES))))
        if len(limits) == 1:
            publish(connection, topic, 2, large + small)
        if report.totals.routed == 260:
            run.stop()

    run = StreamingJob(settings(until_drained=False, window=600.0), [burst])
    run.run(spark)
    assert limits[0] == (MOST_ROWS, UNCHECKED)
    assert limits[-1] == (MOST_ROWS, MOST_BYTES)
    assert "a message is much larger than samples of its topic: the batch runs again" in caplog.text
