"""A query from a topic to another by `kafka_sink`, as a program of its own.

`python sink_query.py SERVERS FROM TO FOLDER [BATCH]`: with a number, it is killed with all that it has started when it
has written this batch, before Spark notes that the batch is done.
"""

import os
import signal
import sys

from pyspark.sql import DataFrame, SparkSession

from unskew import kafka_sink, spark_settings
from unskew.apps.library.kafka_sink import KafkaBatchWriter
from unskew.deploy.installation.jars import connector_jars

BATCH = 400  # records

written = KafkaBatchWriter.__call__


def main(servers: str, source: str, to: str, folder: str, last: str = "-1") -> None:
    def write(sink: KafkaBatchWriter, batch: DataFrame, number: int) -> None:
        written(sink, batch, number)
        if number == int(last):
            os.killpg(0, signal.SIGKILL)

    KafkaBatchWriter.__call__ = write
    conf = spark_settings(installed=False) | {
        "spark.jars": ",".join(map(str, connector_jars())),
        "spark.ui.enabled": "false",
    }
    # Eight attempts of a task: Python workers are killed, too.
    spark = SparkSession.builder.master("local[2,8]").config(map=conf).getOrCreate()
    kafka = {"kafka.bootstrap.servers": servers, "startingOffsets": "earliest", "maxOffsetsPerTrigger": BATCH}
    messages = spark.readStream.format("kafka").options(**kafka, subscribe=source).load()
    rows = messages.selectExpr("if(offset % 10 = 0, null, concat('k', offset % 7)) AS key", "value")
    kafka_sink(rows, to, servers, f"{folder}/checkpoint", parts=3).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
