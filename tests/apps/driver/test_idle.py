"""While nothing arrives, batches are few; what arrives is counted at once, and the last windows close in time."""

import threading
import time
from contextlib import contextmanager

import pytest

from tests.apps.conftest import by_key, countries, final_counts, publish
from tests.waiting import PATIENCE, awaited
from unskew.apps.aggregator.publisher import list_result_topics
from unskew.apps.driver.streaming_job import StreamingJob

pytestmark = [pytest.mark.nightly(group="clusters"), pytest.mark.spark, pytest.mark.kafka]


def test_an_idle_run_waits_and_wakes(settings, spark, connection, topic):
    publish(connection, topic, 2, countries(["a"] * 10))
    given = settings("SHUFFLE", window=0.5, run_time=600.0, until_drained=False)
    with running(given, spark) as reports:
        awaited(lambda: reports and reports[-1].totals.tuples == 10)
        awaited(lambda: idle_for(reports, 6))
        publish(connection, topic, 2, countries(["b"] * 10))
        awaited(lambda: reports[-1].totals.tuples == 20)
    assert by_key(final_counts(connection, list_result_topics(given)["aggregator"])) == {"a": 10, "b": 10}


def test_no_pause_while_there_is_a_backlog(settings, spark, connection, topic):
    """Batches of ten: with a pause after each, all would take most of an hour."""
    publish(connection, topic, 2, countries(["a"] * 80))
    given = settings("SHUFFLE", max_tuples=10, trigger=600.0, run_time=3600.0, until_drained=False)
    with running(given, spark) as reports:
        awaited(lambda: sum(report.loads.sum() for report in reports) == 80)
        assert [report.loads.sum() for report in reports[:8]] == [10] * 8
        publish(connection, topic, 2, countries(["b"] * 4))
        awaited(lambda: len(reports) > 8)
        assert idle_for(reports, 6), "the backlog was gone"


@contextmanager
def running(given, spark):
    """Run meanwhile, and give the reports; a run that is stopped ends before its trigger, ten minutes later."""
    reports = []
    run = StreamingJob(given, [reports.append])
    thread = threading.Thread(target=run.run, args=[spark])
    thread.start()
    try:
        yield reports
    finally:
        stopped = time.monotonic()
        run.stop()
        thread.join(PATIENCE)
    assert not thread.is_alive()
    assert time.monotonic() - stopped < PATIENCE / 2, "it waited"


def idle_for(reports, seconds) -> bool:
    """Whether for so long no batch has come; with a trigger of 0.4 s there would be many."""
    before = len(reports)
    time.sleep(seconds)
    return len(reports) == before
