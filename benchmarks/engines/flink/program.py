"""Both jobs in Flink: SQL that counts in tumbling windows; with a cost, after a function of Python's.

    python program.py BOOTSTRAP TOPIC OUTPUT COST_MS WORKERS JARS

After https://nightlies.apache.org/flink/flink-docs-release-2.2/docs/dev/table/tuning/ (mini-batch and two-phase
aggregation), .../table/sql/queries/window-tvf/, .../connectors/table/kafka/ and .../python/datastream/.

The window is by the record's time in Kafka: windows by processing time are not counted in two phases, and the last one
of a bounded topic is lost.
"""

import sys
import time

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction, RuntimeContext
from pyflink.table import Schema, StreamTableEnvironment

SOURCE = """
CREATE TABLE messages (
  country STRING,
  stamp TIMESTAMP_LTZ(3) METADATA FROM 'timestamp',
  WATERMARK FOR stamp AS stamp - INTERVAL '40' MINUTE
) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
  'properties.group.id' = '{output}', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'
)
"""
SINK = """
CREATE TABLE counts (`start` BIGINT, `key` STRING, n BIGINT) WITH (
  'connector' = 'kafka', 'topic' = '{output}', 'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'json'
)
"""
COUNTS = """
INSERT INTO counts
SELECT 1000 * UNIX_TIMESTAMP(DATE_FORMAT(window_start, 'yyyy-MM-dd HH:mm:ss')), country, COUNT(*)
FROM TABLE(TUMBLE(TABLE {messages}, DESCRIPTOR(stamp), INTERVAL '5' SECOND))
GROUP BY window_start, window_end, country
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
    "python.fn-execution.bundle.size": "1000",
}


class Work(KeyedProcessFunction):
    """Sleeps for each message of a key, at the worker that owns it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def open(self, runtime_context: RuntimeContext) -> None:
        """Nothing is kept."""

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context):
        time.sleep(self._seconds)
        yield Row(value[0])


def main() -> None:
    bootstrap, topic, output, cost_ms, workers, jars = sys.argv[1:]
    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.add_jars(*jars.split(";"))
    environment.set_parallelism(int(workers))
    tables = StreamTableEnvironment.create(environment)
    for name, value in {**SETTINGS, "python.executable": sys.executable}.items():
        tables.get_config().set(name, value)
    names = {"bootstrap": bootstrap, "topic": topic, "output": output}
    tables.execute_sql(SOURCE.format(**names))
    tables.execute_sql(SINK.format(**names))
    messages = "messages"
    if float(cost_ms):
        kind = Types.ROW_NAMED(["country"], [Types.STRING()])
        keyed = tables.to_data_stream(tables.from_path("messages")).key_by(lambda row: row[0], Types.STRING())
        worked = keyed.process(Work(float(cost_ms) / 1000), kind)
        named = Schema.new_builder().column("country", "STRING")
        timed = named.column_by_metadata("stamp", "TIMESTAMP_LTZ(3)", "rowtime").watermark(
            "stamp", "SOURCE_WATERMARK()"
        )
        tables.create_temporary_view("worked", tables.from_data_stream(worked, timed.build()))
        messages = "worked"
    tables.execute_sql(COUNTS.format(messages=messages)).wait()


if __name__ == "__main__":
    main()
