"""Every point is counted as written or lost, without an InfluxDB."""

import threading

import pytest

from unskew.apps.monitoring import catalogue, influx, outputs
from unskew.apps.monitoring.catalogue import Sample
from unskew.apps.monitoring.outputs import InfluxWriter
from unskew.deploy.influx_target import Target

POINTS = [Sample(catalogue.WORKER, at, {"tuples": at}, {"worker": "0"}) for at in range(3)]


@pytest.fixture
def hangs(monkeypatch):
    """InfluxDB's writes take until this is set."""
    over = threading.Event()

    class Bucket:
        def __init__(self, target):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def write(self, chunk):
            over.wait()
            return ""

    monkeypatch.setattr(influx, "Bucket", Bucket)
    yield over
    over.set()


@pytest.mark.parametrize("capacity", [2, 100])
def test_the_queue_s_end_is_no_point(capacity, hangs, monkeypatch):
    monkeypatch.setattr(outputs, "_AT_THE_END", 0.2)
    monkeypatch.setattr(outputs, "QUEUE", capacity)
    with InfluxWriter(Target("http://127.0.0.1:1", "token", "org", "bucket")) as writer:
        writer.write(POINTS, {"run": "r"})
    assert (writer.written, writer.lost) == (0, len(POINTS))
