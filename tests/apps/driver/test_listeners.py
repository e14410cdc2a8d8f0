"""Listeners that fail: the run goes on, logs the first failure, and counts them all."""

import logging

import pytest

from tests.apps.conftest import count_by_key, countries, publish
from unskew.apps.driver.listeners import Listeners
from unskew.apps.driver.streaming_job import StreamingJob


def closed(message):
    raise OSError(5, "Input/output error")  # what writing to a terminal that is gone gives


def test_the_others_are_called_and_the_failure_is_logged_once(caplog):
    heard = []
    listeners = Listeners("batches", [closed, heard.append])
    with caplog.at_level(logging.ERROR):
        for number in range(3):
            listeners(number)
    assert heard == [0, 1, 2]
    assert listeners.failures == 3
    assert [record.getMessage() for record in caplog.records] == [
        "a listener to the run's batches failed; it isn't mentioned again"
    ]


@pytest.mark.nightly(group="clusters")
def test_the_run_goes_on(settings, spark, connection, topic):
    publish(connection, topic, 2, countries(["a"] * 60))
    run = settings("SHUFFLE", max_tuples=30, window=0.5, run_time=600.0)
    heard = []
    outcome = StreamingJob(run, [closed, heard.append], [closed]).run(spark)
    assert outcome.drained
    assert len(heard) == outcome.batches
    # each batch's report; its progress may come after the end
    assert outcome.batches < outcome.unheard <= 2 * outcome.batches
    assert count_by_key(run) == {"a": 60}
