"""Keep of an event log what `unskew diagnose` reads: `python -m tests.apps.diagnosis.trim_event_log LOG OUT.zst`.

LOG is a file or a folder, or a `rest.json`. What stays is as Spark wrote it, but for paths of the machine.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import pyarrow as pa

from unskew.apps.diagnosis.event_log import EventLog
from unskew.apps.diagnosis.log_files import find_logs
from unskew.apps.diagnosis.rest_api import RestApi

_PROPERTIES = {"spark.job.description", "spark.sql.execution.id", "sql.streaming.queryId", "streaming.sql.batchId"}
_DROPPED = {
    "User",
    "physicalPlanDescription",
    "details",
    "modifiedConfigs",
    "jobTags",
    "Stage Infos",
    "Task Executor Metrics",
}
_LONG = {
    "executorLogs",
    "details",
    "jobTags",
    "peakMemoryMetrics",
    "peakExecutorMetrics",
    "executorMetricsDistributions",
}
_LONG |= {
    "sparkUser",
    "rddIds",
    "killedTasksSummary",
    "sparkProperties",
    "accumulatorUpdates",
    "shufflePushReadMetrics",
}
_STAGE = {"Stage ID", "Stage Attempt ID", "Stage Name", "Number of Tasks"}


def trim(event: dict) -> dict | None:
    """The event without what isn't read. None: it isn't read at all."""
    name = event["Event"]
    if name == "SparkListenerEnvironmentUpdate":
        return {"Event": name, "Spark Properties": {}}
    if name == "SparkListenerStageCompleted":
        info = event["Stage Info"]
        stage = {field: info[field] for field in _STAGE}
        return {"Event": name, "Stage Info": stage | {"Accumulables": [{"ID": a["ID"]} for a in info["Accumulables"]]}}
    if name not in EventLog()._handlers:
        return None
    event = {field: value for field, value in event.items() if field not in _DROPPED}
    if "Properties" in event:
        event["Properties"] = {key: value for key, value in event["Properties"].items() if key in _PROPERTIES}
    if "Executor Info" in event:
        event["Executor Info"] = {"Total Cores": event["Executor Info"]["Total Cores"]}
    if "Task Info" in event:
        kept = [each for each in event["Task Info"]["Accumulables"] if each["Name"] == "number of total state rows"]
        event["Task Info"]["Accumulables"] = kept
    return event


def trim_log(path: Path) -> Iterator[bytes]:
    [log] = find_logs(path)
    for line in log.read_lines():
        if event := trim(orjson.loads(line)):
            yield orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE)


def trim_answers(path: Path) -> Iterator[bytes]:
    """The answers that are asked for, without what makes them long."""
    answers, asked = orjson.loads(path.read_bytes()), {}

    def ask(name: str) -> object:
        asked[name] = _without(answers[name])
        return answers[name]

    for _ in RestApi(ask).read():
        pass
    yield orjson.dumps(asked)


def _without(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without(each) for name, each in value.items() if name not in _LONG}
    return [_without(each) for each in value] if isinstance(value, list) else value


def main(path: str, out: str) -> None:
    codec = pa.Codec("zstd", compression_level=19)
    trimmed = trim_answers if path.endswith(".json") else trim_log
    text = re.sub(rb"(?<!\w)(file:)?/+([\w.-]+/)+[\w.-]*", b"/recorded", b"".join(trimmed(Path(path))))
    Path(out).write_bytes(codec.compress(text, asbytes=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
