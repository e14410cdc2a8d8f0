"""Ends queries: whether all messages are counted, stops between batches, and reasons of failures."""

import re
import time
from collections.abc import Mapping

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from unskew.apps.checkpoint.versions import Totals
from unskew.apps.driver.batch_committer import BatchReport
from unskew.apps.driver.dataflow import Dataflow
from unskew.apps.driver.session import get_log_file
from unskew.apps.operators.errors import StateFault, UserCodeFault
from unskew.apps.splitter.kafka_source import TOO_LARGE
from unskew.errors import EnvironmentFault, UsageError
from unskew.kafka.transactions import TransactionInterrupted

_LOOK_EVERY = 0.05  # s
# Spark and Py4J wrap errors several times.
_WRAPPERS = ("StreamingQueryException", "ForeachBatchUserFuncException", "Py4JJavaError", "SparkException")
# Spark always waits 10 s: a busy machine may take longer to import pyspark.
_LATE = "Python worker failed to connect back"
_RAISED = "[USER_RAISED_EXCEPTION] "  # precedes an error raised by a column; the plan has only the text
# Spark writes no log entry twice. The first is from a log, the second from its files.
_CONTESTED = ("CONCURRENT_STREAM_LOG_UPDATE", "Multiple streaming queries are concurrently using")


class Drain:
    """Checks whether all messages are counted that the topic had at a time, such as the run's start.

    ``ends`` has the partitions' end offsets then.
    """

    def __init__(self, dataflow: Dataflow, ends: Mapping[int, int]) -> None:
        self._settings = dataflow.settings
        self._stage = dataflow.stage
        self._ends = ends

    @property
    def end_offset_sum(self) -> int:
        """The sum of the end offsets: all messages that the topic had ever had then."""
        return sum(self._ends.values())

    def is_reached(self, report: BatchReport, *, flushing: bool) -> bool:
        """Whether all messages are counted and their windows published after a batch.

        Event time stands still without tuples. So in event time only a flushing query waits for windows.
        """
        taken = report.batch.end[self._settings.topic]
        if any(taken.get(str(p), 0) < offset for p, offset in self._ends.items()):
            return False
        waits_for_windows = self._settings.time == "batch" or flushing
        return not waits_for_windows or self._over(report)

    def end_ms(self, totals: Totals) -> int:
        """The end of the last window (ms), or in event time, which a flush advances, of the last state's TTL."""
        return totals.last_window_end_ms + (self._stage.tail_ms if self._settings.time == "event" else 0)

    def _over(self, report: BatchReport) -> bool:
        """Whether the windows are published, and the states merged."""
        if report.totals.open:
            return False
        end_ms = self.end_ms(report.totals)
        return self._stage.is_merged(report.states, end_ms) and report.batch.watermark_ms >= end_ms


class QueryHalted(Exception):
    """Ends a query at the start of a batch, after the previous one is committed, and before this one writes."""


class RepeatableFault(EnvironmentFault):
    """The query failed, but resumes if restarted."""

    why: str


class LatePython(RepeatableFault):
    """A Python process, which Spark needs for the schemas of a batch's states, didn't start in time."""

    why = "the machine is busy"


class ContestedCheckpoint(RepeatableFault):
    """A driver from which this one has taken the checkpoint has planned or committed the batch."""

    why = "the driver before this one was still at work"


class LargeMessage(EnvironmentFault):
    """A message is so large that Spark's usual number of rows for Python could be too many bytes."""


def stop_between_batches(query: StreamingQuery) -> None:
    """Stop a query when no batch is running. During one, Spark's threads would log stack traces."""
    while query.isActive and query.status["isTriggerActive"]:
        time.sleep(_LOOK_EVERY)
    query.stop()


def translate_failure(error: StreamingQueryException) -> UsageError | EnvironmentFault:
    """The error to raise for a failed query."""
    text, line = str(error), describe_cause(error)
    if _find_misuse(error):
        return UsageError(line)
    if _LATE in text:
        return LatePython(line)
    if _RAISED + TOO_LARGE in text:
        return LargeMessage(line)
    return ContestedCheckpoint(line) if any(words in text for words in _CONTESTED) else EnvironmentFault(line)


def describe_cause(error: StreamingQueryException) -> str:
    """Why a query failed, in one line."""
    raised = re.search(rf"{UserCodeFault.__name__}: (.+)", str(error))
    if raised:
        return f"{raised[1]}; nothing is lost: mend it and start again, or give --work-option errors=reject"
    raised = re.search(rf"{StateFault.__name__}: (.+)", str(error))
    if raised:
        return f"{raised[1]}; nothing is lost: mend it and start again"
    raised = _find_misuse(error)
    if raised:
        return raised[1]
    raised = re.search(rf"(?:{EnvironmentFault.__name__}|{TransactionInterrupted.__name__}): (.+)", str(error))
    if raised:
        return f"the query failed: {raised[1]}; the rest is in {get_log_file()}"
    lines = re.findall(
        r"^(?:Caused by|: )?:? ?((?:[\w$]+\.)*(\w+(?:Exception|Error|Fault)): .+)$", str(error), re.MULTILINE
    )
    causes = [line for line, kind in lines if kind not in _WRAPPERS]
    reason = causes[-1] if causes else str(error).strip().splitlines()[0]
    return f"the query failed: {reason}; the rest is in {get_log_file()}"


def _find_misuse(error: StreamingQueryException) -> re.Match[str] | None:
    """A task's error for a user's mistake, if any."""
    return re.search(rf"{UsageError.__name__}: (.+)", str(error))
