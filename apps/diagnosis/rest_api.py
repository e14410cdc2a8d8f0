"""Reads the REST API (``/api/v1``) of a running application's UI or of a history server."""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

import orjson
import urllib3

from unskew.apps.diagnosis.findings import LEAST_SECONDS, SLOW
from unskew.apps.diagnosis.sql_plans import PlanNode, find_stage_nodes
from unskew.apps.diagnosis.stage_tasks import StageTasks, Task
from unskew.errors import EnvironmentFault, UsageError, suggest_names

_FEW = 50  # up to so many tasks are always requested
_PAGE = 1000  # tasks or queries per answer
_SUMMARIES = "withSummaries=true&quantiles=0.5,1.0"
_OF_STAGE = re.compile(r"\(stage (\d+)\.(\d+): task")
_BATCH = re.compile(r"\nid = (\S+)\nrunId = \S+\nbatch = (\d+)")
_ARGUMENTS = re.compile(r"(?m)^\(\d+\) Exchange.*\n(?:.+\n)*?Arguments: (.*)$")

Answer = Any
Ask = Callable[[str], Answer]


def connect(address: str) -> Ask:
    """A function path → answer of the API at this address.

    Raises ``UsageError`` if the address isn't a UI's.
    """
    if not re.match(r"https?://[^/]", address):
        raise UsageError(f"--ui is {address!r}; valid: http://HOST:PORT, of a running application or a history server")
    pool, base = urllib3.PoolManager(timeout=30, retries=2), f"{address.rstrip('/')}/api/v1/"

    def ask(path: str) -> Answer:
        try:
            answer = pool.request("GET", base + path)
        except urllib3.exceptions.HTTPError as error:
            raise EnvironmentFault(f"{address} doesn't answer: {error}") from None
        if answer.status != 200:
            raise EnvironmentFault(f"{address} answers {answer.status} to {path}; valid: the address of Spark's UI")
        return orjson.loads(answer.data)

    return ask


class RestApi:
    """An application, by default the newest, according to the API: its name and id, and Spark's version.

    ``ask`` is what ``connect`` returns. Raises ``UsageError`` if there is no application of that id.
    """

    def __init__(self, ask: Ask, application: str | None = None) -> None:
        known = ask("applications")
        found = [each for each in known if application in (None, each["id"])]
        if not found:
            raise UsageError(
                f"there is no application {application!r}" + suggest_names(application, [e["id"] for e in known])
            )
        attempt = found[0]["attempts"][0]
        self.name, self.application, self.version = found[0]["name"], found[0]["id"], attempt["appSparkVersion"]
        parts = [quote(self.application), *([attempt["attemptId"]] if "attemptId" in attempt else [])]
        self._ask, self._base = ask, f"applications/{'/'.join(parts)}"

    def read(self, count: Callable[[float], None] = lambda _: None) -> Iterator[StageTasks]:
        """The stages that the UI still has, also running ones. Even stages come without their tasks.

        ``count`` gets the share done.
        """
        slots = sum(each["maxTasks"] for each in self._ask(f"{self._base}/allexecutors") if each["isActive"])
        jobs = {stage: job for job in self._ask(f"{self._base}/jobs") for stage in job["stageIds"]}
        queries = {
            job: query for query in self._list_queries() for job in query["runningJobIds"] + query["successJobIds"]
        }
        stages = [
            each for each in self._ask(f"{self._base}/stages?{_SUMMARIES}") if each["status"] in ("COMPLETE", "ACTIVE")
        ]
        for number, answer in enumerate(stages):
            count(number / len(stages))
            job = jobs.get(answer["stageId"], {})
            stage = self._read_stage(answer, job, queries.get(job.get("jobId"), {}))
            stage.slots = slots
            yield stage

    def _list_queries(self) -> Iterator[Mapping[str, Any]]:
        offset = 0
        while answers := self._ask(
            f"{self._base}/sql?details=true&planDescription=true&offset={offset}&length={_PAGE}"
        ):
            yield from answers
            offset += len(answers)
            if len(answers) < _PAGE:
                return

    def _read_stage(self, answer: Answer, job: Answer, query: Answer) -> StageTasks:
        stage = StageTasks(answer["stageId"], answer["attemptId"], answer["name"], failed=answer["numFailedTasks"])
        stage.query = job.get("description") or query.get("description", "")
        if batch := _BATCH.search(stage.query):
            stage.stream, stage.batch = batch[1], int(batch[2])
        if query:
            nodes = [node for node in read_nodes(query) if f"{stage.stage}.{stage.attempt}" in node[1]]
            stage.nodes, stage.keys = find_stage_nodes(
                (node, metrics[f"{stage.stage}.{stage.attempt}"]) for node, metrics in nodes
            )
        if not _is_even(answer):
            stage.tasks = [*self._list_tasks(stage)]
        return stage

    def _list_tasks(self, stage: StageTasks) -> Iterator[Task]:
        offset, path = 0, f"{self._base}/stages/{stage.stage}/{stage.attempt}/taskList"
        while answers := self._ask(f"{path}?offset={offset}&length={_PAGE}&sortBy=ID"):
            yield from (parse_task(each) for each in answers if each["status"] in ("SUCCESS", "RUNNING"))
            offset += len(answers)
            if len(answers) < _PAGE:
                return


def _is_even(answer: Answer) -> bool:
    """Whether the slowest of many tasks isn't slow, so that they needn't be requested.

    Spark's median of an even number of tasks is the upper middle one. Of few tasks that makes a difference.
    """
    durations = (answer.get("taskMetricsDistributions") or {}).get("duration")
    if answer["status"] == "ACTIVE" or not durations or answer["numTasks"] < _FEW:
        return False
    median, slowest = durations
    return slowest < SLOW * median or slowest - median < 1000 * LEAST_SECONDS


def read_nodes(query: Answer) -> Iterator[tuple[PlanNode, dict[str, list[str]]]]:
    """The operators of a query, last first, and each stage's metrics of them.

    The API names the stage only in metrics of times and sizes, next to their maximum. It has no arguments of operators:
    the plan's text has those of Exchanges, in the order of execution.
    """
    children: dict[int, list[int]] = {}
    for edge in query["edges"]:
        children.setdefault(edge["toId"], []).append(edge["fromId"])
    nodes = {node["nodeId"]: node for node in query["nodes"]}
    exchanges = [
        number for number in _order(min(nodes, default=0), children) if nodes[number]["nodeName"] == "Exchange"
    ]
    arguments = _ARGUMENTS.findall(query["planDescription"])
    texts = dict(zip(exchanges, arguments, strict=True)) if len(exchanges) == len(arguments) else {}
    for number in sorted(nodes):
        metrics: dict[str, list[str]] = {}
        for metric in nodes[number]["metrics"]:
            for stage, attempt in _OF_STAGE.findall(metric["value"]):
                metrics.setdefault(f"{stage}.{attempt}", []).append(metric["name"])
        yield PlanNode(nodes[number]["nodeName"].strip(), texts.get(number, "")), metrics


def _order(node: int, children: Mapping[int, list[int]]) -> Iterator[int]:
    """An operator after those below it: inputs first, as Spark numbers them in a plan's text."""
    for child in sorted(children.get(node, ())):
        yield from _order(child, children)
    yield node


def parse_task(answer: Answer) -> Task:
    """Parse a task of a stage's ``taskList``. A running one has what it has reported so far."""
    metrics = answer.get("taskMetrics") or {}
    read, written = metrics.get("shuffleReadMetrics", {}), metrics.get("shuffleWriteMetrics", {})
    source, sink = metrics.get("inputMetrics", {}), metrics.get("outputMetrics", {})
    launch = round(datetime.fromisoformat(answer["launchTime"].replace("GMT", "+00:00")).timestamp() * 1000)
    return Task(
        partition=answer["index"],
        attempt=answer["attempt"],
        executor=answer["executorId"],
        host=answer["host"],
        locality=answer["taskLocality"],
        launch=launch,
        finish=launch + answer.get("duration", 0),
        run=metrics.get("executorRunTime", answer.get("duration", 0)),
        cpu=metrics.get("executorCpuTime", 0) // 1_000_000,
        rows_read=read.get("recordsRead", 0) + source.get("recordsRead", 0),
        bytes_read=read.get("remoteBytesRead", 0) + read.get("localBytesRead", 0) + source.get("bytesRead", 0),
        rows_shuffled=read.get("recordsRead", 0),
        rows_written=written.get("recordsWritten", 0) + sink.get("recordsWritten", 0),
        bytes_written=written.get("bytesWritten", 0) + sink.get("bytesWritten", 0),
        gc=metrics.get("jvmGcTime", 0),
        wait=read.get("fetchWaitTime", 0),
        spilled=metrics.get("diskBytesSpilled", 0),
    )
