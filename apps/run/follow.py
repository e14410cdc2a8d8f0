"""Spark's own progress of a query, batch by batch, for whoever wants to follow it."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    JStreamingQueryListener,
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

Follower = Callable[[Mapping[str, Any]], None]

_PATIENCE = 10.0  # s


@contextmanager
def follow(spark: SparkSession, query: str, tell: Follower) -> Iterator[None]:
    """Tell of each progress of the query of that name, as read from its JSON, until it has terminated.

    It is called from a thread of Spark's, once the batch is committed.
    """
    listener = _Listener(query, tell)
    spark.streams.addListener(listener)
    try:
        yield
        # Events come in order: after this one there is none left to come.
        if listener.started:
            listener.terminated.wait(_PATIENCE)
    finally:
        spark.streams.removeListener(listener)


def kafka_source(progress: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a query's progress tells of its Kafka source."""
    return next(source for source in progress["sources"] if source["description"].startswith("Kafka"))


def taken(progress: Mapping[str, Any]) -> dict[str, int]:
    """Partition → the offset up to which (exclusive) its messages are counted."""
    return _of_one_topic(kafka_source(progress)["endOffset"])


def lags(progress: Mapping[str, Any]) -> dict[str, int]:
    """Partition → messages that were there when the batch was planned, and that it didn't take.

    Empty where a batch that an earlier driver had planned was run again: Spark doesn't ask then what there is.
    """
    ends, offsets = _of_one_topic(kafka_source(progress)["latestOffset"] or {}), taken(progress)
    return {partition: max(0, end - offsets[partition]) for partition, end in ends.items()}


def processed_rate(progress: Mapping[str, Any]) -> float:
    """Messages per second that the batch got done; 0 where Spark can't tell."""
    return kafka_source(progress).get("processedRowsPerSecond") or 0.0


def _of_one_topic(offsets: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    return dict(next(iter(offsets.values()), {}))


class _Listener(StreamingQueryListener):
    def __init__(self, query: str, tell: Follower) -> None:
        self._query = query
        self._tell = tell
        self._run = ""
        self._called: Any = None
        self.started = False
        self.terminated = threading.Event()

    @property
    def _jlistener(self) -> Any:
        if self._called is None:
            jvm: Any = SparkContext._jvm  # noqa: SLF001
            self._called = jvm.PythonStreamingQueryListenerWrapper(_Calls(self))
        return self._called

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        if event.name == self._query:
            self._run = str(event.runId)
            self.started = True

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        self.progress(event.progress.json)

    def progress(self, told: str) -> None:
        progress = json.loads(told)
        if progress["runId"] == self._run:
            self._tell(progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        if str(event.runId) == self._run:
            self.terminated.set()


class _Calls(JStreamingQueryListener):
    """What the JVM calls. pyspark would ask it for each field of the progress: a fifth of a small batch's CPU."""

    def onQueryProgress(self, jevent: Any) -> None:  # noqa: N802
        listener: Any = self.pylistener
        listener.progress(jevent.progress().json())
