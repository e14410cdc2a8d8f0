"""The join in Flink's SQL: an interval join.

    python join.py BOOTSTRAP LEFT RIGHT OUTPUT WORKERS LATE_MS CHECKPOINTS JARS

After https://nightlies.apache.org/flink/flink-docs-release-2.2/docs/dev/table/sql/queries/joins/ ("Interval Joins")
and .../connectors/table/kafka/. Time is that of the records. The settings are those of ``program.py`` without
mini-batches, which are for aggregations, and without the idle time-out: a stream that is held back would be taken for
an idle one, and the rows of the other would be removed too early. Checkpoints go to the folder CHECKPOINTS, as in
``distinct.py``.
"""

import sys

from program import SETTINGS, SOURCE, create_tables, write_interval

SINK = """
CREATE TABLE pairs (`key` STRING, `left` BIGINT, `right` BIGINT) WITH (
  'connector' = 'kafka', 'topic' = '{output}', 'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'json'
)
"""
PAIRS = """
INSERT INTO pairs
SELECT l.by_key, l.id, r.id FROM lefts AS l JOIN rights AS r ON l.by_key = r.by_key
AND r.stamp BETWEEN l.stamp - INTERVAL '1' SECOND AND l.stamp + INTERVAL '1' SECOND
"""
OF_JOIN = {"table.exec.mini-batch.enabled": "false", "table.exec.source.idle-timeout": "0 s"}


def main() -> None:
    bootstrap, left, right, output, workers, late_ms, checkpoints, jars = sys.argv[1:]
    settings = SETTINGS | OF_JOIN | {"execution.checkpointing.dir": f"file://{checkpoints}"}
    tables = create_tables(workers, jars, settings)
    names = {"bootstrap": bootstrap, "output": output, "columns": "`key` STRING, id BIGINT", "field": "`key`"}
    names |= {"late": write_interval(int(late_ms)), "end": "latest-offset"}
    for table, topic in (("lefts", left), ("rights", right)):
        tables.execute_sql(SOURCE.format(**names, table=table, topic=topic))
    tables.execute_sql(SINK.format(**names))
    tables.execute_sql(PAIRS).wait()


if __name__ == "__main__":
    main()
