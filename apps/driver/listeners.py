"""Calls listeners to a run's batches, and followers of Spark's progress."""

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    JStreamingQueryListener,
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from unskew.spark.compat import get_jvm

log = logging.getLogger(__name__)

Message = TypeVar("Message")
#: Called with Spark's progress (``unskew.apps.metrics.query_progress``).
Follower = Callable[[Mapping[str, Any]], None]

_PATIENCE = 10.0  # s


class Listeners(Generic[Message]):
    """Calls each listener with the same message, in their order. A failing listener never fails the run.

    A listener may fail because of a closed terminal or a full disk, say. Its first failure is logged, with ``what`` the
    messages are about, and it is called again with the next message. ``failures`` is the number of failed calls so far.
    """

    def __init__(self, what: str, listeners: Sequence[Callable[[Message], None]]) -> None:
        self.failures = 0
        self._what = what
        self._listeners = listeners
        self._mentioned: set[int] = set()

    def __call__(self, message: Message) -> None:
        """Call them."""
        for number, listener in enumerate(self._listeners):
            try:
                listener(message)
            except Exception:
                self.failures += 1
                if number not in self._mentioned:
                    self._mentioned.add(number)
                    log.exception("a listener to the run's %s failed; it isn't mentioned again", self._what)


@contextmanager
def follow_progress(spark: SparkSession, query: str, follower: Follower) -> Iterator[None]:
    """Call the follower with each progress of the named query until it terminates.

    Spark calls it from another thread, after committing the batch.
    """
    listener = _Listener(query, follower)
    spark.streams.addListener(listener)
    try:
        yield
        # Events come in order: this one is the last.
        if listener.started:
            listener.terminated.wait(_PATIENCE)
    finally:
        spark.streams.removeListener(listener)


class _Listener(StreamingQueryListener):
    def __init__(self, query: str, follower: Follower) -> None:
        self._query = query
        self._follower = follower
        self._run = ""
        self._called: Any = None
        self.started = False
        self.terminated = threading.Event()

    @property
    def _jlistener(self) -> Any:
        if self._called is None:
            self._called = get_jvm().PythonStreamingQueryListenerWrapper(_JavaListener(self))
        return self._called

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        if event.name == self._query:
            self._run = str(event.runId)
            self.started = True

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        self.progress(event.progress.json)

    def progress(self, text: str) -> None:
        progress = json.loads(text)
        if progress["runId"] == self._run:
            self._follower(progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        if str(event.runId) == self._run:
            self.terminated.set()


class _JavaListener(JStreamingQueryListener):
    """The JVM's listener, which gets a progress as one JSON text.

    PySpark's would request each field of the progress from the JVM, which took a fifth of a small batch's CPU.
    """

    def onQueryProgress(self, jevent: Any) -> None:  # noqa: N802
        listener: Any = self.pylistener
        listener.progress(jevent.progress().json())
