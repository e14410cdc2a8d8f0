"""Metrics at an OpenTelemetry collector, which is the protocol's own gRPC service in this process."""

import re
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from tests.commands import unskew
from tests.waiting import awaited
from unskew.apps.metrics import catalogue
from unskew.apps.metrics.catalogue import METRICS, Sample
from unskew.apps.metrics.metrics_reporter import sample_progress
from unskew.apps.metrics.outputs import Destinations, Outputs, make_otlp_writer
from unskew.loopback import free_port

pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc", reason="unskew[otlp] isn't installed")
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

COMMON = {"run": "r", "source_type": "T", "grouping": "KEY", "workers": "2"}
_ENDS = {"1": "ratio", "s": "seconds", "By": "bytes"}


class Received(metrics_service_pb2_grpc.MetricsServiceServicer):
    """What a collector has got: name → the metrics' points."""

    def __init__(self):
        self.metrics, self.resources = {}, []

    def Export(self, request, context):  # noqa: N802
        for of in request.resource_metrics:
            self.resources.append({each.key: each.value.string_value for each in of.resource.attributes})
            for scope in of.scope_metrics:
                for metric in scope.metrics:
                    self.metrics.setdefault(metric.name, []).append(metric)
        return metrics_service_pb2.ExportMetricsServiceResponse()


class Traced(trace_service_pb2_grpc.TraceServiceServicer):
    """The spans that a collector has got."""

    def __init__(self):
        self.spans = []

    def Export(self, request, context):  # noqa: N802
        self.spans += [span for of in request.resource_spans for scope in of.scope_spans for span in scope.spans]
        return trace_service_pb2.ExportTraceServiceResponse()


@pytest.fixture
def collector():
    server = grpc.server(ThreadPoolExecutor(1))
    received = Received()
    received.traced = Traced()
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(received, server)
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(received.traced, server)
    received.port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield received
    server.stop(0)


def points(metric):
    own = metric.sum if metric.HasField("sum") else metric.gauge
    return [({each.key: each.value.string_value for each in p.attributes}, p.as_double) for p in own.data_points]


def in_prometheus(metric) -> str:
    """The name by the rules of OpenTelemetry's specification, "Prometheus compatibility"."""
    name = metric.name.replace(".", "_")
    end = _ENDS.get(metric.unit, "per_second" if re.fullmatch(r"\{\w+\}/s", metric.unit) else "")
    if end == "ratio" and metric.HasField("sum"):
        end = ""
    name += f"_{end}" if end and not name.endswith(f"_{end}") else ""
    return name + ("_total" if metric.HasField("sum") and metric.sum.is_monotonic else "")


def test_a_collector_gets_the_metrics_by_the_names_that_prometheus_has(collector):
    with Outputs(Destinations(otlp=f"otlp://127.0.0.1:{collector.port}")) as outputs:
        for subject in {metric.subject.name: metric.subject for metric in METRICS}.values():
            values = {
                metric.name: "Turkey" if metric.kind == "text" else 100 for metric in catalogue.list_metrics(subject)
            }
            outputs.write([Sample(subject, 5, values, dict.fromkeys(subject.labels, "0"))], COMMON)
        awaited(lambda: "unskew.influxdb.lost" in collector.metrics, "the last one is there")
    assert re.fullmatch(r"OpenTelemetry: \d+ points written to otlp://127\.0\.0\.1:\d+, none lost", outputs.balance)
    expected = {metric.prometheus_name for metric in METRICS if metric.is_number}
    found = [metric for of in collector.metrics.values() for metric in of]
    assert {in_prometheus(metric) for metric in found} == expected
    assert "Turkey" not in str(found), "no key leaves"
    [(labels, value)] = points(collector.metrics["unskew.worker.share"][0])
    assert (labels, value) == ({**COMMON, "worker": "0"}, 1.0)
    assert collector.metrics["unskew.worker.share"][0].gauge.data_points[0].time_unix_nano == 5_000_000
    assert collector.metrics["unskew.run.tuples"][0].sum.is_monotonic
    assert {each["service.name"] for each in collector.resources} == {"unskew"}


def test_points_of_a_series_go_together(collector):
    with make_otlp_writer(f"otlp://127.0.0.1:{collector.port}") as writer:
        writer.write([Sample(catalogue.TASK, 5, {"tuples": w}, {"worker": str(w)}) for w in range(3)], COMMON)
    assert (writer.written, writer.lost) == (3, 0)
    sent = [point for metric in collector.metrics["unskew.task.tuples"] for point in points(metric)]
    assert sent == [({**COMMON, "worker": str(w)}, float(w)) for w in range(3)]


def test_a_batch_is_a_trace_with_a_span_for_each_stage(collector):
    durations = {"addBatch": 500, "walCommit": 20, "triggerExecution": 560, "latestOffset": 10}
    progress = {"batchId": 3, "durationMs": durations, "stateOperators": [], "sources": []}
    with make_otlp_writer(f"otlp://127.0.0.1:{collector.port}") as writer:
        writer.write([*sample_progress(progress, 1_000)], COMMON)
    assert writer.lost == 0
    spans = {span.name: span for span in collector.traced.spans}
    ends = {
        name: (span.start_time_unix_nano // 10**6, span.end_time_unix_nano // 10**6) for name, span in spans.items()
    }
    assert ends == {
        "batch": (1_000, 1_560),
        "latestOffset": (1_000, 1_010),
        "walCommit": (1_010, 1_030),
        "addBatch": (1_030, 1_530),
    }
    batch = spans.pop("batch")
    assert {span.parent_span_id for span in spans.values()} == {batch.span_id}
    assert {span.trace_id for span in spans.values()} == {batch.trace_id}
    assert {each.key: each.value.int_value for each in batch.attributes}["batch"] == 3


def test_a_collector_without_traces_gets_the_metrics():
    server = grpc.server(ThreadPoolExecutor(1))
    received = Received()
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(received, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    values = {"duration": 0.5, "batch_number": 1}
    with make_otlp_writer(f"otlp://127.0.0.1:{port}") as writer:
        writer.write([Sample(catalogue.QUERY, 5, values)], COMMON)
        awaited(lambda: writer.written, "the first batch is sent")
        writer.write([Sample(catalogue.QUERY, 6, values)], COMMON)
    server.stop(0)
    assert (writer.written, writer.lost) == (2, 0)


def test_a_collector_that_is_not_there_holds_nothing_up():
    with make_otlp_writer(f"otlp://127.0.0.1:{free_port()}") as writer:
        writer.write([Sample(catalogue.BATCH, 5, {"tuples": 1})], COMMON)
    assert (writer.written, writer.lost) == (0, 1)
    assert writer.losses.startswith("1 points for OpenTelemetry lost (")


@pytest.mark.parametrize("wrong", ["otlp://host", "otlp://host:x", "grpc://host:1"])
def test_what_is_no_address(wrong):
    done = unskew("topology", "LOCAL", "COLUMN", "KEY", "t", 1, 1, "x0", "--metrics", wrong)
    assert done.stderr.startswith(f"unskew: --metrics is '{wrong}'; valid: one http://HOST:PORT of InfluxDB")
