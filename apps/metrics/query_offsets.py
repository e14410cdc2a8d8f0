"""The offsets of a user's query, committed to a Kafka consumer group for lag tools."""

import json
import logging
import threading
import time
from typing import Any

from unskew.apps.metrics.query_progress import list_taken_offsets
from unskew.kafka.connection import Connection
from unskew.kafka.consumer_group import ConsumerGroup

log = logging.getLogger(__name__)

_EVERY = 5.0  # s, as consumers commit by default


def commit_progress(query: Any, connection: Connection, group: str, every: float = _EVERY) -> threading.Thread:
    """Commit the offsets up to which a query's committed batches have read, to a group of the cluster that it reads.

    Until the query has ended, a separate thread asks it every so many seconds, and so works through Spark Connect, too.
    A query that starts again needs a new call.
    """
    arguments = query, connection, group, every
    # A daemon thread: it doesn't keep a process that is done from ending.
    thread = threading.Thread(target=_commit_until_end, args=arguments, name="commit-progress", daemon=True)
    thread.start()
    return thread


def _commit_until_end(query: Any, connection: Connection, name: str, every: float) -> None:
    newest = None
    with ConsumerGroup(connection, name) as group:
        while True:
            try:
                active = query.isActive  # before its progress, so that the last batch's isn't missed
                progress = query.lastProgress
            except Exception as error:  # noqa: BLE001  classic and Connect raise different ones, and the session may have ended
                log.warning("no more offsets are committed to the consumer group %s: %s", name, error)
                return
            if progress is not None and progress.batchId != newest:
                newest = progress.batchId
                for topic, offsets in list_taken_offsets(json.loads(progress.json)):
                    group.commit(topic, offsets)
            if not active:
                return
            time.sleep(every)
