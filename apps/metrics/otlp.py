"""An OpenTelemetry collector, to which samples are sent as metrics, and batches as traces, by OTLP over gRPC.

Names and units are chosen so that a collector's exporter for Prometheus makes of them the names that this project's own
page has: rules and dashboards hold for both. As there, no key is a label. OpenTelemetry's SDK can't say that a rank is
gone: the collector drops it once it is old.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import accumulate, pairwise

from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Metric as OtlpMetric
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, TraceFlags

from unskew.apps.metrics import catalogue
from unskew.apps.metrics.catalogue import UNITS, Metric, Sample, list_metrics

log = logging.getLogger(__name__)

_TIMEOUT = 10.0  # s, with the client's own attempts
#: The end of Prometheus' name → UCUM's unit, of which the collector's exporter makes that end.
_UCUM = {"ratio": "1", "seconds": "s", "bytes": "By", "timestamp_seconds": "s", "per_second": "{{{}}}/s", "": ""}
#: The stages of a micro-batch in the order in which Spark goes through them. Others come last.
_ORDER = ("latestOffset", "walCommit", "getBatch", "queryPlanning", "addBatch", "commitOffsets", "commitBatch")
_SCOPE = InstrumentationScope("unskew")
_IDS = RandomIdGenerator()


class Collector:
    """A connection to a collector: ``otlp://HOST:PORT``, or ``otlps://`` with TLS.

    Headers and certificates are those of OpenTelemetry's variables ``OTEL_EXPORTER_OTLP_HEADERS`` and
    ``OTEL_EXPORTER_OTLP_CERTIFICATE``.
    """

    def __init__(self, url: str) -> None:
        scheme, _, address = url.rstrip("/").partition("://")
        secure = scheme == "otlps"
        endpoint = f"{'https' if secure else 'http'}://{address}"
        self._address = address
        to = {"endpoint": endpoint, "insecure": not secure, "timeout": _TIMEOUT}
        self._exporter = OTLPMetricExporter(**to)
        self._traces: OTLPSpanExporter | None = OTLPSpanExporter(**to)
        self._resource = Resource({SERVICE_NAME: "unskew", "service.version": version("unskew")})

    def close(self) -> None:
        self._exporter.shutdown()
        if self._traces:
            self._traces.shutdown()

    def write(self, samples: Sequence[tuple[Sample, Mapping[str, str]]]) -> str:
        """Send samples, each with its run's labels. Return why they couldn't be sent; empty: they were."""
        metrics = make_metrics(samples)
        if not metrics:
            return ""
        scope = ScopeMetrics(_SCOPE, metrics, "")
        result = self._exporter.export(MetricsData([ResourceMetrics(self._resource, [scope], "")]))
        if result is not MetricExportResult.SUCCESS:
            return f"{self._address} didn't take them; Spark's log says why"
        self._write_traces(samples)
        return ""

    def _write_traces(self, samples: Sequence[tuple[Sample, Mapping[str, str]]]) -> None:
        """Send the samples' batches as traces. A collector that takes metrics but no traces gets none from then on."""
        spans = make_spans(samples, self._resource) if self._traces else []
        if spans and self._traces and self._traces.export(spans) is not SpanExportResult.SUCCESS:
            log.warning("%s took metrics, but no traces: it gets no more of them", self._address)
            self._traces.shutdown()
            self._traces = None


def make_metrics(samples: Sequence[tuple[Sample, Mapping[str, str]]]) -> list[OtlpMetric]:
    """The numbers of samples as OpenTelemetry's metrics, each with all its points."""
    points: dict[str, tuple[Metric, list[NumberDataPoint]]] = {}
    for sample, common in samples:
        labels = {**common, **sample.labels}
        at = sample.time_ms * 1_000_000 or time.time_ns()
        for metric in list_metrics(sample.subject):
            if metric.name in sample.values and metric.is_number:
                value = metric.in_prometheus(float(sample.values[metric.name]))
                points.setdefault(metric.prometheus_name, (metric, []))[1].append(NumberDataPoint(labels, 0, at, value))
    return [_make_metric(metric, of) for metric, of in points.values()]


def _make_metric(metric: Metric, points: list[NumberDataPoint]) -> OtlpMetric:
    suffix = UNITS[metric.unit]
    stamped = suffix == "timestamp_seconds" and not metric.name.endswith("timestamp")
    name = f"unskew.{metric.subject.name}.{metric.name}{'.timestamp' * stamped}"
    unit = _UCUM[suffix].format(metric.unit.split("/")[0])
    counts = metric.kind == "counter"
    data = Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True) if counts else Gauge(points)
    return OtlpMetric(name, f"{metric.subject.meaning}: {metric.meaning}", unit, data)


def make_spans(samples: Sequence[tuple[Sample, Mapping[str, str]]], resource: Resource) -> list[ReadableSpan]:
    """The spans of the micro-batches whose duration is among the samples.

    A batch's span begins when the batch was planned. Spark says how long each stage took, but not when: each is taken
    to begin where the one before it ended.
    """
    stages: dict[tuple[str, int], dict[str, float]] = {}
    for sample, common in samples:
        if sample.subject is catalogue.STAGE:
            of_batch = stages.setdefault((common["run"], sample.time_ms), {})
            of_batch[sample.labels["stage"]] = float(sample.values["duration"])
    spans: list[ReadableSpan] = []
    for sample, common in samples:
        if sample.subject is catalogue.QUERY and "duration" in sample.values:
            spans += _make_batch_spans(sample, common, stages.get((common["run"], sample.time_ms), {}), resource)
    return spans


def _make_batch_spans(
    sample: Sample, common: Mapping[str, str], stages: Mapping[str, float], resource: Resource
) -> Iterator[ReadableSpan]:
    """The span of a batch, and those of its stages (seconds)."""
    trace, begin = _IDS.generate_trace_id(), sample.time_ms * 1_000_000
    attributes = {**common, "batch": int(sample.values["batch_number"])}

    def make(name: str, start: int, end: int, parent: SpanContext | None = None) -> ReadableSpan:
        context = SpanContext(trace, _IDS.generate_span_id(), False, TraceFlags(TraceFlags.SAMPLED))
        return ReadableSpan(
            name, context, parent, resource, attributes, start_time=start, end_time=end, instrumentation_scope=_SCOPE
        )

    batch = make("batch", begin, begin + int(float(sample.values["duration"]) * 1e9))
    yield batch
    names = sorted(stages, key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER))
    ends = accumulate((int(stages[name] * 1e9) for name in names), initial=begin)
    for name, (start, end) in zip(names, pairwise(ends), strict=True):
        yield make(name, start, end, batch.context)
