"""How a query ends: between two batches, or by an error of which one line is told."""

import re
import time

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from unskew.apps.keyed.calls import StateFault
from unskew.apps.run.session import log_file
from unskew.apps.topology.work import WorkFault
from unskew.errors import EnvironmentFault

_LOOK_EVERY = 0.05  # s


class Halted(Exception):
    """Ends a query at the start of a batch, when the one before is committed and this one has touched nothing."""


class LatePython(EnvironmentFault):
    """A Python process wasn't there in time, such as the one that Spark asks for states' schemas to plan a batch."""


def stop_between_batches(query: StreamingQuery) -> None:
    """Stop a query: in the middle of a batch Spark's threads would log stack traces."""
    while query.isActive and query.status["isTriggerActive"]:
        time.sleep(_LOOK_EVERY)
    query.stop()


# Spark and Py4J wrap what went wrong several times over.
_WRAPPERS = ("StreamingQueryException", "ForeachBatchUserFuncException", "Py4JJavaError", "SparkException")


# Spark's limit for it is fixed: 10 s, which a busy machine may need to import pyspark.
_LATE = "Python worker failed to connect back"


def fault(error: StreamingQueryException) -> EnvironmentFault:
    """What to raise for it."""
    return (LatePython if _LATE in str(error) else EnvironmentFault)(cause(error))


def cause(error: StreamingQueryException) -> str:
    """What went wrong, in one line."""
    raised = re.search(rf"{WorkFault.__name__}: (.+)", str(error))
    if raised:
        return f"{raised[1]}; nothing is lost: mend it and start again, or give --work-errors reject"
    raised = re.search(rf"{StateFault.__name__}: (.+)", str(error))
    if raised:
        return f"{raised[1]}; nothing is lost: mend it and start again"
    raised = re.search(rf"{EnvironmentFault.__name__}: (.+)", str(error))
    if raised:
        return f"the query failed: {raised[1]}; the rest is in {log_file()}"
    said = re.findall(
        r"^(?:Caused by|: )?:? ?((?:[\w$]+\.)*(\w+(?:Exception|Error|Fault)): .+)$", str(error), re.MULTILINE
    )
    causes = [line for line, kind in said if kind not in _WRAPPERS]
    reason = causes[-1] if causes else str(error).strip().splitlines()[0]
    return f"the query failed: {reason}; the rest is in {log_file()}"
