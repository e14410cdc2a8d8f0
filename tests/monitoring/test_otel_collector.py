"""Metrics and traces at OpenTelemetry's own collector."""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.programs import found
from tests.programs.packages import otel_collector
from tests.waiting import awaited
from unskew.apps.metrics import catalogue
from unskew.apps.metrics.catalogue import METRICS, Sample
from unskew.apps.metrics.metrics_reporter import sample_progress
from unskew.apps.metrics.outputs import make_otlp_writer
from unskew.loopback import free_port

pytestmark = pytest.mark.nightly(group="servers")
pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc", reason="unskew[otlp] isn't installed")

COMMON = {"run": "r", "source_type": "T", "grouping": "KEY", "workers": "2"}
CONFIG = """
receivers: {{otlp: {{protocols: {{grpc: {{endpoint: "127.0.0.1:{taken}"}}}}}}}}
exporters:
  prometheus: {{endpoint: "127.0.0.1:{page}"}}
  debug: {{verbosity: detailed}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    metrics: {{receivers: [otlp], exporters: [prometheus]}}
    traces: {{receivers: [otlp], exporters: [debug]}}
"""


@dataclass(frozen=True)
class Collector:
    """Where it listens, its page for Prometheus, and its log, in which it describes the spans that it gets."""

    address: str
    page: str
    log: Path

    def names(self) -> set[str]:
        """The metrics on its page."""
        with urlopen(self.page) as page:
            return set(re.findall(r"^# TYPE (unskew_\S+) ", page.read().decode(), re.MULTILINE))


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    program = found(otel_collector)
    taken, page = free_port(), free_port()
    config, log = tmp_path / "config.yaml", tmp_path / "log"
    config.write_text(CONFIG.format(taken=taken, page=page))
    with log.open("wb") as out, subprocess.Popen([program, f"--config={config}"], stdout=out, stderr=out) as process:
        awaited(lambda: b"Everything is ready" in log.read_bytes(), "the collector listens")
        yield Collector(f"otlp://127.0.0.1:{taken}", f"http://127.0.0.1:{page}/metrics", log)
        process.terminate()


def test_its_exporter_gives_metrics_the_names_that_our_page_has(collector):
    with make_otlp_writer(collector.address) as writer:
        for subject in {metric.subject.name: metric.subject for metric in METRICS if metric.is_number}.values():
            values = {metric.name: 100 for metric in catalogue.list_metrics(subject) if metric.is_number}
            writer.write([Sample(subject, 5, values, dict.fromkeys(subject.labels, "0"))], COMMON)
    assert writer.lost == 0
    assert collector.names() == {metric.prometheus_name for metric in METRICS if metric.is_number}


def test_it_gets_a_batch_as_a_trace(collector):
    durations = {"addBatch": 500, "walCommit": 20, "triggerExecution": 560, "latestOffset": 10}
    progress = {"batchId": 3, "durationMs": durations, "stateOperators": [], "sources": []}
    with make_otlp_writer(collector.address) as writer:
        writer.write([*sample_progress(progress, 1_000)], COMMON)
    assert writer.lost == 0
    awaited(lambda: b"addBatch" in collector.log.read_bytes(), "the trace is there")
    spans = re.findall(r"Parent ID +: ?(\w*)\n +ID +: (\w+)\n +Name +: (\w+)", collector.log.read_text())
    [root] = [span for parent, span, name in spans if name == "batch" and not parent]
    assert {name for parent, _, name in spans if parent == root} == {"latestOffset", "walCommit", "addBatch"}
