"""Reads Spark's event log line by line. A stage is yielded when it ends, and then forgotten.

The format is that of ``org.apache.spark.util.JsonProtocol``, which adds fields and never removes one.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import orjson

from unskew.apps.diagnosis.sql_plans import SqlPlan
from unskew.apps.diagnosis.stage_tasks import StageTasks, Task
from unskew.errors import UsageError

_SQL = "org.apache.spark.sql.execution.ui."
_STATE_ROWS = "number of total state rows"
_START = b'{"Event":"'

Event = dict[str, Any]


class EventLog:
    """An application, according to its event log: its name and id, and Spark's version, which are empty until read."""

    def __init__(self) -> None:
        self.name = self.application = self.version = ""
        self._cores: dict[str, int] = {}
        self._cpus = 1
        self._properties: dict[int, dict[str, str]] = {}  # stage → its job's
        self._job_stages: dict[int, list[int]] = {}
        self._plans: dict[int, SqlPlan] = {}
        self._running: dict[tuple[int, int], StageTasks] = {}
        self._handlers: dict[str, Callable[[Event], StageTasks | None]] = {
            "SparkListenerLogStart": self._start_log,
            "SparkListenerApplicationStart": self._start_application,
            "SparkListenerEnvironmentUpdate": self._read_settings,
            "SparkListenerExecutorAdded": self._add_executor,
            "SparkListenerExecutorRemoved": self._remove_executor,
            "SparkListenerJobStart": self._start_job,
            "SparkListenerJobEnd": self._end_job,
            "SparkListenerTaskEnd": self._end_task,
            "SparkListenerStageCompleted": self._end_stage,
            f"{_SQL}SparkListenerSQLExecutionStart": self._start_query,
            f"{_SQL}SparkListenerSQLAdaptiveExecutionUpdate": self._change_query,
            f"{_SQL}SparkListenerSQLExecutionEnd": self._end_query,
        }

    def read(self, lines: Iterable[bytes]) -> Iterator[StageTasks]:
        """Yield the stages in the order in which they end. Stages still running at the log's end come last.

        Raises ``UsageError`` if the lines aren't an event log's, or there are none.
        """
        number = -1
        for number, line in enumerate(lines):
            if not line.startswith(_START):
                if number == 0:
                    raise UsageError("the first line is no event of Spark's; valid: the log of an application")
                continue  # the last line of a log whose driver was killed
            name = line[len(_START) : line.find(b'"', len(_START))].decode(errors="replace")
            if handle := self._handlers.get(name):
                try:
                    event = orjson.loads(line)
                except orjson.JSONDecodeError:
                    continue  # such a line, cut off within its event
                if ended := handle(event):
                    yield ended
        if number < 0:
            raise UsageError("the log is empty; valid: the log of an application")
        for (number, _), stage in self._running.items():
            self._describe(stage, number, [])
            yield stage

    def _start_log(self, event: Event) -> None:
        self.version = event["Spark Version"]

    def _start_application(self, event: Event) -> None:
        self.name, self.application = event["App Name"], event.get("App ID") or ""

    def _read_settings(self, event: Event) -> None:
        self._cpus = int(event["Spark Properties"].get("spark.task.cpus", 1))

    def _add_executor(self, event: Event) -> None:
        self._cores[event["Executor ID"]] = event["Executor Info"]["Total Cores"]

    def _remove_executor(self, event: Event) -> None:
        self._cores.pop(event["Executor ID"], None)

    def _start_job(self, event: Event) -> None:
        properties = event.get("Properties") or {}
        self._job_stages[event["Job ID"]] = event["Stage IDs"]
        for stage in event["Stage IDs"]:
            self._properties.setdefault(stage, properties)

    def _end_job(self, event: Event) -> None:
        for stage in self._job_stages.pop(event["Job ID"], ()):
            self._properties.pop(stage, None)

    def _start_query(self, event: Event) -> None:
        plan = self._plans[event["executionId"]] = SqlPlan(event["description"])
        plan.add(event["sparkPlanInfo"])

    def _change_query(self, event: Event) -> None:
        if plan := self._plans.get(event["executionId"]):
            plan.add(event["sparkPlanInfo"])

    def _end_query(self, event: Event) -> None:
        self._plans.pop(event["executionId"], None)

    def _end_task(self, event: Event) -> None:
        key = event["Stage ID"], event["Stage Attempt ID"]
        stage = self._running.setdefault(key, StageTasks(*key))
        if event["Task End Reason"]["Reason"] == "Success" and event.get("Task Metrics"):
            stage.tasks.append(parse_task(event["Task Info"], event["Task Metrics"]))
        elif event["Task End Reason"]["Reason"] != "TaskKilled":  # the slower of two attempts is killed
            stage.failed += 1

    def _end_stage(self, event: Event) -> StageTasks:
        info = event["Stage Info"]
        key = info["Stage ID"], info["Stage Attempt ID"]
        stage = self._running.pop(key, None) or StageTasks(*key)
        stage.name = info["Stage Name"]
        self._describe(stage, info["Stage ID"], [each["ID"] for each in info.get("Accumulables", ())])
        if not stage.nodes:
            stage.nodes = [orjson.loads(rdd["Scope"])["name"] for rdd in info.get("RDD Info", ()) if rdd.get("Scope")]
        return stage

    def _describe(self, stage: StageTasks, number: int, accumulators: list[int]) -> None:
        properties = self._properties.get(number, {})
        plan = self._plans.get(int(properties.get("spark.sql.execution.id", -1)))
        stage.query = properties.get("spark.job.description") or (plan.description if plan else "")
        stage.stream = properties.get("sql.streaming.queryId", "")
        stage.batch = int(properties.get("streaming.sql.batchId", -1))
        if plan:
            stage.nodes, stage.keys = plan.find_nodes(accumulators)
        stage.slots = sum(self._cores.values()) // self._cpus


def parse_task(info: Event, metrics: Event) -> Task:
    """Parse a task from ``SparkListenerTaskEnd``."""
    read, written = metrics.get("Shuffle Read Metrics") or {}, metrics.get("Shuffle Write Metrics") or {}
    source, sink = metrics.get("Input Metrics") or {}, metrics.get("Output Metrics") or {}
    stored = [int(each["Update"]) for each in info.get("Accumulables", ()) if each.get("Name") == _STATE_ROWS]
    return Task(
        partition=info["Index"],
        attempt=info["Attempt"],
        executor=info["Executor ID"],
        host=info["Host"],
        locality=info["Locality"],
        launch=info["Launch Time"],
        finish=info["Finish Time"],
        run=metrics["Executor Run Time"],
        cpu=metrics.get("Executor CPU Time", 0) // 1_000_000,
        rows_read=read.get("Total Records Read", 0) + source.get("Records Read", 0),
        bytes_read=read.get("Remote Bytes Read", 0) + read.get("Local Bytes Read", 0) + source.get("Bytes Read", 0),
        rows_shuffled=read.get("Total Records Read", 0),
        rows_written=written.get("Shuffle Records Written", 0) + sink.get("Records Written", 0),
        bytes_written=written.get("Shuffle Bytes Written", 0) + sink.get("Bytes Written", 0),
        gc=metrics["JVM GC Time"],
        wait=read.get("Fetch Wait Time", 0),
        spilled=metrics["Disk Bytes Spilled"],
        state_rows=sum(stored) if stored else -1,
    )
