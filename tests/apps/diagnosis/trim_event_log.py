"""Keep of an event log what `unskew diagnose` reads: `python -m tests.apps.diagnosis.trim_event_log LOG OUT.zst`.

LOG is a file or a folder. Events and fields that stay are as Spark wrote them.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import pyarrow as pa

from unskew.apps.diagnosis.event_log import EventLog
from unskew.apps.diagnosis.log_files import find_logs

_PROPERTIES = {"spark.job.description", "spark.sql.execution.id", "sql.streaming.queryId", "streaming.sql.batchId"}
_DROPPED = {"physicalPlanDescription", "details", "modifiedConfigs", "jobTags", "Stage Infos", "Task Executor Metrics"}
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
    if "Task Info" in event:
        kept = [each for each in event["Task Info"]["Accumulables"] if each["Name"] == "number of total state rows"]
        event["Task Info"]["Accumulables"] = kept
    return event


def trim_log(path: Path) -> Iterator[bytes]:
    [log] = find_logs(path)
    for line in log.read_lines():
        if event := trim(orjson.loads(line)):
            yield orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE)


def main(path: str, out: str) -> None:
    codec = pa.Codec("zstd", compression_level=19)
    Path(out).write_bytes(codec.compress(b"".join(trim_log(Path(path))), asbytes=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
