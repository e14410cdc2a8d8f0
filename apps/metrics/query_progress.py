"""The position of a query, read from Spark's progress.

A progress is the JSON of Spark's ``StreamingQueryProgress``, read into a mapping. Spark makes one for each batch.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from unskew.kafka.reader import EndOffsets

_HELD_BACK = "heldBack"


def get_kafka_source(progress: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a query's progress that is about its (first) Kafka source. Empty: it has none."""
    return next((source for source in progress["sources"] if source["description"].startswith("Kafka")), {})


def get_taken_offsets(progress: Mapping[str, Any]) -> dict[str, int]:
    """Partition → the offset up to which (exclusive) its messages are counted."""
    return _merge_topics(get_kafka_source(progress).get("endOffset") or {})


def list_taken_offsets(progress: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, int]]]:
    """Each topic of each Kafka source, with partition → the offset up to which (exclusive) the query has read it."""
    for source in progress["sources"]:
        if source["description"].startswith("Kafka"):
            yield from (source.get("endOffset") or {}).items()


def get_end_offsets(progress: Mapping[str, Any]) -> dict[str, int]:
    """Partition → the offset at which (exclusive) it ended when the batch was planned.

    It is empty for a batch that an earlier driver had planned, because Spark runs it again without asking Kafka for the
    newest offsets.
    """
    return _merge_topics(get_kafka_source(progress).get("latestOffset") or {})


def compute_lags(progress: Mapping[str, Any]) -> dict[str, int]:
    """Partition → messages that were in it when the batch was planned, and that the batch didn't take.

    Those that are held back are among them. It is empty if ``get_end_offsets`` is.
    """
    offsets, held = get_taken_offsets(progress), get_held_back(progress)
    return {
        partition: max(0, end - offsets[partition]) + held.get(partition, 0)
        for partition, end in get_end_offsets(progress).items()
    }


def get_held_back(progress: Mapping[str, Any]) -> dict[str, int]:
    """Partition → messages from the first open transaction to the end, as ``add_held_back`` has found them."""
    return get_kafka_source(progress).get(_HELD_BACK) or {}


def add_held_back(progress: Mapping[str, Any], ends: EndOffsets, stopped: Callable[[], bool]) -> None:
    """Add to a progress what open transactions hold back. Spark ends before them: for it, a partition ends there.

    A query that reads uncommitted messages, too, goes beyond that: nothing is held back from it.
    """
    planned = get_end_offsets(progress)
    partitions = [*map(int, planned)]
    if not partitions:
        return
    # In this order, so that what is committed meanwhile isn't held back.
    ends_of_log = ends.ask(partitions, committed=False, stopped=stopped)
    stable = ends.ask(ends_of_log, committed=True, stopped=stopped) if ends_of_log else {}
    held = {
        str(partition): max(0, ends_of_log[partition] - offset)
        for partition, offset in stable.items()
        if offset >= planned[str(partition)]
    }
    cast("dict[str, Any]", get_kafka_source(progress))[_HELD_BACK] = held


def get_rate(progress: Mapping[str, Any], name: str) -> float:
    """Messages per second, by Spark's name of the rate. 0: it leaves that out. Without Kafka, rows of all sources."""
    return (get_kafka_source(progress) or progress).get(name) or 0.0


def _merge_topics(offsets: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    return dict(next(iter(offsets.values()), {}))
