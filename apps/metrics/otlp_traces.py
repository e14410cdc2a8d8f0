"""Traces for an OpenTelemetry collector: a span for each micro-batch, and below it one for each of its stages."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, TraceFlags

from unskew.apps.metrics import catalogue
from unskew.apps.metrics.catalogue import Sample

#: The stages of a micro-batch in the order in which Spark goes through them. Others come last.
_ORDER = ("latestOffset", "walCommit", "getBatch", "queryPlanning", "addBatch", "commitOffsets", "commitBatch")
_SCOPE = InstrumentationScope("unskew")
_IDS = RandomIdGenerator()


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
            name,
            context,
            parent,
            resource,
            attributes,
            start_time=start,
            end_time=end,
            instrumentation_scope=_SCOPE,
        )

    batch = make("batch", begin, begin + int(float(sample.values["duration"]) * 1e9))
    yield batch
    names = sorted(stages, key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER))
    ends = accumulate((int(stages[name] * 1e9) for name in names), initial=begin)
    for name, (start, end) in zip(names, pairwise(ends), strict=True):
        yield make(name, start, end, batch.context)
