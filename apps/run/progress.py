"""The position of a query, read from Spark's progress.

A progress is the JSON of Spark's ``StreamingQueryProgress``, read into a mapping. Spark makes one for each batch.
"""

from collections.abc import Mapping
from typing import Any


def kafka_source(progress: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a query's progress that is about its (first) Kafka source. Empty: it has none."""
    return next((source for source in progress["sources"] if source["description"].startswith("Kafka")), {})


def taken(progress: Mapping[str, Any]) -> dict[str, int]:
    """Partition → the offset up to which (exclusive) its messages are counted."""
    return _of_one_topic(kafka_source(progress).get("endOffset") or {})


def newest(progress: Mapping[str, Any]) -> dict[str, int]:
    """Partition → the offset at which (exclusive) it ended when the batch was planned.

    It is empty for a batch that an earlier driver had planned, because Spark runs it again without asking Kafka for the
    newest offsets.
    """
    return _of_one_topic(kafka_source(progress).get("latestOffset") or {})


def lags(progress: Mapping[str, Any]) -> dict[str, int]:
    """Partition → messages that were in it when the batch was planned, and that the batch didn't take.

    It is empty if ``newest`` is.
    """
    offsets = taken(progress)
    return {partition: max(0, end - offsets[partition]) for partition, end in newest(progress).items()}


def input_rate(progress: Mapping[str, Any]) -> float:
    """Messages per second that arrived between the last two triggers. As ``processed_rate``."""
    return _rate(progress, "inputRowsPerSecond")


def processed_rate(progress: Mapping[str, Any]) -> float:
    """Messages per second of the batch. 0 if Spark leaves the rate out. Without a Kafka source, rows of all sources."""
    return _rate(progress, "processedRowsPerSecond")


def _rate(progress: Mapping[str, Any], name: str) -> float:
    return (kafka_source(progress) or progress).get(name) or 0.0


def _of_one_topic(offsets: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    return dict(next(iter(offsets.values()), {}))
