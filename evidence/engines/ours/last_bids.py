"""NEXMark's q18 in ours: ``keyed_map`` with the work ``Latest``, by bidder and auction.

    python last_bids.py BOOTSTRAP TOPIC OUTPUT WORKERS CHECKPOINT GROUPING PARTITIONS JARS

After docs/library.md ("`keyed_map`", "Prepare a session") and docs/operators.md ("Ready-made operators").
The latest value is the whole message. Where a key is at several workers, each batch merges what they know. Spark's own
sink writes the results.
"""

import sys

from pyspark.sql import functions as F

from evidence.engines.queries import messages, session, write
from unskew import keyed_map, spark_settings
from unskew.grouping.registry import SINGLE_OWNER
from unskew.operators import Latest

BATCH = 400_000  # records


def main() -> None:
    bootstrap, topic, output, workers, checkpoint, grouping, partitions, jars = sys.argv[1:]
    of = spark_settings(workers=int(workers), cores=int(workers)) | {"spark.driver.memory": "2g"}
    spark = session(grouping, workers, jars, of | {"spark.sql.session.timeZone": "UTC"})
    read = messages(spark, bootstrap, topic, BATCH)
    value = F.col("value").cast("string")
    message = F.from_json(value, "bid struct<auction: long, bidder: long, dateTime: timestamp>")
    bids = read.select("partition", value.alias("value"), message["bid"].alias("bid"))
    last = keyed_map(
        bids.select("partition", "value", "bid.*"),
        ["bidder", "auction"],
        int(workers),
        Latest(),
        grouping,
        checkpoint,
        time="dateTime",
        lateness="40 minutes",
        ttl="1 day",
        merge_every=None if grouping in SINGLE_OWNER else "1 batch",
        source="partition",
        sources=int(partitions),
    )
    write(
        last.select(F.concat_ws("/", "bidder", "auction").alias("key"), "value"),
        bootstrap,
        output,
        checkpoint,
        every="0 seconds",
    )


if __name__ == "__main__":
    main()
