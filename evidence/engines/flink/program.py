"""Counts in Flink: SQL that counts in tumbling windows, or in sessions.

    python program.py BOOTSTRAP TOPIC OUTPUT FIELD GAP_MS WORKERS LATE_MS AIM JARS

After https://nightlies.apache.org/flink/flink-docs-release-2.2/docs/dev/table/tuning/ (mini-batch and two-phase
aggregation), .../table/sql/queries/window-tvf/, and .../connectors/table/kafka/.

The window is by the record's time in Kafka: windows by processing time are not counted in two phases, and the last one
of a bounded topic is lost.

AIM is ``throughput``: it reads to the topic's end; or ``latency``: it reads on, there are no mini-batches, and buffers
between tasks are sent after 10 ms (.../dev/datastream/overview/, "Controlling Latency").
"""

import sys
from collections.abc import Mapping
from datetime import timedelta
from functools import reduce

from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import StreamTableEnvironment

SOURCE = """
CREATE TABLE {table} (
  {columns},
  by_key AS {field},
  stamp TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',
  WATERMARK FOR stamp AS stamp - INTERVAL '{late}' HOUR TO SECOND(3)
) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
  'properties.group.id' = '{output}', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = '{end}'
)
"""
SINK = """
CREATE TABLE counts (`start` TIMESTAMP(3), `key` STRING, n BIGINT) WITH (
  'connector' = 'kafka', 'topic' = '{output}', 'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'json'
)
"""
WINDOWS = "TUMBLE(TABLE messages, DESCRIPTOR(stamp), INTERVAL '5' SECOND)"
SESSIONS = "SESSION(TABLE messages PARTITION BY by_key, DESCRIPTOR(stamp), INTERVAL '{gap}' SECOND)"
COUNTS = """
INSERT INTO counts SELECT window_start, by_key, COUNT(*) FROM TABLE({windows})
GROUP BY window_start, window_end, by_key
"""
SETTINGS = {
    "table.local-time-zone": "UTC",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.agg-phase-strategy": "TWO_PHASE",
    "table.exec.source.idle-timeout": "5 s",
    "pipeline.object-reuse": "true",
    "execution.checkpointing.interval": "10 s",
}
FOR_LATENCY = {"table.exec.mini-batch.enabled": "false", "execution.buffer-timeout.interval": "10 ms"}


def create_tables(workers: str, jars: str, settings: Mapping[str, str]) -> StreamTableEnvironment:
    """An environment for SQL, with so many tasks side by side."""
    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.add_jars(*jars.split(";"))
    environment.set_parallelism(int(workers))
    tables = StreamTableEnvironment.create(environment)
    for name, value in settings.items():
        tables.get_config().set(name, value)
    return tables


def write_interval(milliseconds: int) -> str:
    """A time of less than a day as SQL's interval from hours to seconds."""
    return f"{timedelta(seconds=milliseconds // 1000)}.{milliseconds % 1000:03}"


def main() -> None:
    bootstrap, topic, output, field, gap_ms, workers, late_ms, aim, jars = sys.argv[1:]
    tables = create_tables(workers, jars, SETTINGS if aim == "throughput" else SETTINGS | FOR_LATENCY)
    names = {"bootstrap": bootstrap, "topic": topic, "output": output, "gap": f"{int(gap_ms) / 1000}"}
    names |= {"table": "messages", "late": write_interval(int(late_ms))}
    names["end"] = "latest-offset" if aim == "throughput" else "unbounded"
    path = [f"`{name}`" for name in field.split(".")]
    names["field"] = ".".join(path)
    names["columns"] = reduce(lambda inner, parent: f"{parent} ROW<{inner}>", reversed(path[:-1]), f"{path[-1]} STRING")
    windows = (SESSIONS if int(gap_ms) else WINDOWS).format(**names)
    tables.execute_sql(SOURCE.format(**names))
    tables.execute_sql(SINK.format(**names))
    tables.execute_sql(COUNTS.format(**names, windows=windows)).wait()


if __name__ == "__main__":
    main()
