"""While nothing arrives, batches are few; what arrives is counted at once, and the last windows close in time."""

import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from tests.apps.conftest import count_by_key, countries, publish
from tests.apps.local_settings import settings as local_settings
from tests.waiting import PATIENCE, awaited
from unskew.apps.driver.dataflow import Dataflow
from unskew.apps.driver.idle import IdleWait
from unskew.apps.driver.streaming_job import StreamingJob
from unskew.kafka.connection import Connection


@pytest.mark.nightly(group="clusters")
def test_an_idle_run_waits_and_wakes(settings, spark, connection, topic):
    publish(connection, topic, 2, countries(["a"] * 10))
    given = settings("SHUFFLE", window=0.5, run_time=600.0, until_drained=False)
    with running(given, spark) as reports:
        awaited(lambda: reports and reports[-1].totals.tuples == 10)
        awaited(lambda: idle_for(reports, 6))
        publish(connection, topic, 2, countries(["b"] * 10))
        awaited(lambda: reports[-1].totals.tuples == 20)
    assert count_by_key(given) == {"a": 10, "b": 10}


@pytest.mark.nightly(group="clusters")
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


@pytest.mark.parametrize("flag", ["halt", "draining"])
def test_an_idle_run_without_a_broker_stops_at_once(flag):
    offsets = {"t": dict.fromkeys(map(str, range(30)), 7)}
    batch = SimpleNamespace(start=offsets, end=offsets, time_ms=0, watermark_ms=0)
    report = SimpleNamespace(batch=batch, totals=SimpleNamespace(last_window_end_ms=0), windows=[], states=None)
    flags = {"halt": threading.Event(), "draining": threading.Event()}
    run = local_settings(topic="t", connection=Connection("127.0.0.1:1"), trigger=0.0)
    threading.Timer(0.3, flags[flag].set).start()
    began = time.monotonic()
    with IdleWait(Dataflow.of(run), **flags) as idle:
        idle(report, 0)
    assert 0.2 < time.monotonic() - began < 2
