"""Check that a task sees its query's checkpoint where Spark's driver has it, and that the driver has the query's own.

A path on a local disk is another folder on each machine. The routers of a batch might then not find the states that the
previous batch has written. So every task checks this before it writes.
"""

import json
import socket

from pyspark import TaskContext
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from unskew.apps.checkpoint.folders import Folder
from unskew.apps.checkpoint.location import Location, Where
from unskew.errors import UsageError

_QUERY = "sql.streaming.queryId"  # the local property in which a query's jobs have its id
_MARK = "metadata"  # the file in which Spark's driver writes that id before the first batch

_VALID = "the query's own checkpointLocation, where all machines see it (a network file system, s3a://…, hdfs://…)"

# The (address, query) pairs that this process has seen. Where each request costs money, it looks once.
_seen: set[tuple[str, str]] = set()


def require_visible(where: Where) -> None:
    """Check that the calling task sees its query's checkpoint. A task of no query isn't checked.

    Raises ``UsageError`` if this task sees no checkpoint, or another query's; ``EnvironmentFault`` if the location
    can't be reached.
    """
    context = TaskContext.get()
    query = context.getLocalProperty(_QUERY) if context else None
    location = Location.of(where)
    if query is None or (location.address, query) in _seen:
        return
    folder = location.folder()
    found = _read_query_id(folder)
    if found != query:
        raise UsageError(
            f"the checkpoint {location} is not seen by executors on {socket.gethostname()} (the query there: {found}, "
            f"this one: {query}); valid: {_VALID}"
        )
    if folder.costly:
        _seen.add((location.address, query))


def require_own_query(spark: SparkSession, where: Where) -> None:
    """Check that a checkpoint is that of the query whose ``foreachBatch`` the calling thread of the driver runs.

    Raises ``UsageError`` if it is another query's, or none; ``EnvironmentFault`` if the location can't be reached.
    """
    query, location = spark.sparkContext.getLocalProperty(_QUERY), Location.of(where)
    found = _read_query_id(location.folder())
    if found != query:
        raise UsageError(
            f"the checkpoint {location} is not that of the query (the query there: {found}, this one: {query}); valid: "
            "the query's own checkpointLocation"
        )


def _read_query_id(folder: Folder) -> str:
    """The id of the query whose checkpoint a folder is, or ``none``."""
    try:
        return str(json.loads(folder.read(_MARK))["id"])
    except FileNotFoundError:
        return "none"


def require_shared(spark: SparkSession, location: Location, *names: str) -> None:
    """Check that Spark's driver sees a file that this process has written.

    Raises ``UsageError`` if it doesn't: the file system is another one, or Spark Connect's server is on another
    machine.
    """
    try:
        _ = spark.read.text(location.below(*names).address).schema
    except AnalysisException as error:
        raise UsageError(f"the checkpoint {location} is not seen by Spark's driver; valid: {_VALID}") from error
