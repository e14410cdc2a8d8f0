"""Every point is counted as written or lost, without an InfluxDB."""

import threading

from unskew.apps.metrics import catalogue, influx, outputs
from unskew.apps.metrics.catalogue import Sample
from unskew.apps.metrics.outputs import InfluxTarget, make_influx_writer

POINTS = [Sample(catalogue.WORKER, at, {"tuples": at}, {"worker": "0"}) for at in range(3)]


class Hanging:
    """A bucket whose writes take until the test is over."""

    over = threading.Event()

    def __init__(self, target):
        pass

    def close(self):
        pass

    def write(self, chunk):
        self.over.wait()
        return ""


def test_the_queue_s_end_is_no_point(monkeypatch):
    monkeypatch.setattr(influx, "Bucket", Hanging)
    monkeypatch.setattr(outputs, "_AT_THE_END", 0.2)
    for capacity in (2, 100):
        monkeypatch.setattr(outputs, "QUEUE", capacity)
        with make_influx_writer(InfluxTarget("http://127.0.0.1:1", "token", "org", "bucket")) as writer:
            writer.write(POINTS, {"run": "r"})
        assert (writer.written, writer.lost) == (0, len(POINTS))
    Hanging.over.set()
