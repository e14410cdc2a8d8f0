"""The position of a query, read from Spark's progress.

A progress is the JSON of Spark's ``StreamingQueryProgress``, read into a mapping. Spark makes one for each batch.
"""

from collections.abc import Mapping
from typing import Any


def kafka_source(progress: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a query's progress that is about its Kafka source."""
    return next(source for source in progress["sources"] if source["description"].startswith("Kafka"))


def taken(progress: Mapping[str, Any]) -> dict[str, int]:
    """Partition → the offset up to which (exclusive) its messages are counted."""
    return _of_one_topic(kafka_source(progress)["endOffset"])


def newest(progress: Mapping[str, Any]) -> dict[str, int]:
    """Partition → the offset at which (exclusive) it ended when the batch was planned.

    It is empty for a batch that an earlier driver had planned, because Spark runs it again without asking Kafka for the
    newest offsets.
    """
    return _of_one_topic(kafka_source(progress)["latestOffset"] or {})


def lags(progress: Mapping[str, Any]) -> dict[str, int]:
    """Partition → messages that were in it when the batch was planned, and that the batch didn't take.

    It is empty if ``newest`` is.
    """
    offsets = taken(progress)
    return {partition: max(0, end - offsets[partition]) for partition, end in newest(progress).items()}


def processed_rate(progress: Mapping[str, Any]) -> float:
    """Messages per second of the batch. 0 if Spark leaves the rate out."""
    return kafka_source(progress).get("processedRowsPerSecond") or 0.0


def _of_one_topic(offsets: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    return dict(next(iter(offsets.values()), {}))
