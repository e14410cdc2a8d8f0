"""An idle run is stopped at once, also while no broker answers."""

import threading
import time
from types import SimpleNamespace

import pytest

from tests.apps.local_settings import settings
from unskew.apps.driver.dataflow import Dataflow
from unskew.apps.driver.idle import IdleWait
from unskew.kafka.connection import Connection


@pytest.mark.parametrize("flag", ["halt", "draining"])
def test_an_idle_run_without_a_broker_stops_at_once(flag):
    offsets = {"t": dict.fromkeys(map(str, range(30)), 7)}
    batch = SimpleNamespace(start=offsets, end=offsets, time_ms=0, watermark_ms=0)
    report = SimpleNamespace(batch=batch, totals=SimpleNamespace(last_window_end_ms=0), windows=[], states=None)
    flags = {"halt": threading.Event(), "draining": threading.Event()}
    run = settings(topic="t", connection=Connection("127.0.0.1:1"), trigger=0.0)
    threading.Timer(0.3, flags[flag].set).start()
    began = time.monotonic()
    with IdleWait(Dataflow.of(run), **flags) as idle:
        idle(report, 0)
    assert 0.2 < time.monotonic() - began < 2
