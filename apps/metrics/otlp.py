"""An OpenTelemetry collector, to which samples are sent as metrics, and batches as traces, by OTLP over gRPC.

Names and units are chosen so that a collector's exporter for Prometheus makes of them the names that this project's own
page has: rules and dashboards hold for both. As there, no key is a label. OpenTelemetry's SDK can't say that a rank is
gone: the collector drops it once it is old.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Self

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
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from unskew.apps.metrics.catalogue import UNITS, Metric, Sample, list_metrics
from unskew.apps.metrics.otlp_traces import make_spans

log = logging.getLogger(__name__)

_TIMEOUT = 10.0  # s, with the client's own attempts
#: The end of Prometheus' name → UCUM's unit, of which the collector's exporter makes that end.
_UCUM = {"ratio": "1", "seconds": "s", "bytes": "By", "timestamp_seconds": "s", "per_second": "{{{}}}/s", "": ""}


class Collector:
    """A connection to a collector. It is a context manager.

    Parameters
    ----------
    url : str
        ``otlp://HOST:PORT``, or ``otlps://`` with TLS. Headers and certificates are those of OpenTelemetry's variables
        ``OTEL_EXPORTER_OTLP_HEADERS`` and ``OTEL_EXPORTER_OTLP_CERTIFICATE``.

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

    def __enter__(self) -> Self:
        """The collector itself: the client connects with its first request."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the client."""
        self._exporter.shutdown()
        if self._traces:
            self._traces.shutdown()

    def write(self, samples: Sequence[tuple[Sample, Mapping[str, str]]]) -> str:
        """Send samples, each with its run's labels. Return why they couldn't be sent; empty: they were."""
        metrics = make_metrics(samples)
        if not metrics:
            return ""
        scope = ScopeMetrics(InstrumentationScope("unskew"), metrics, "")
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
