"""Queries of NEXMark in Spark itself: ``q18`` by ``max_by``, or ``q5`` by two aggregations.

    python nexmark.py QUERY BOOTSTRAP TOPIC OUTPUT WORKERS CHECKPOINT LATE_MS JARS

After https://spark.apache.org/docs/latest/streaming/apis-on-dataframes-and-datasets.html ("Window Operations on Event
Time", "Output Modes"), .../streaming/structured-streaming-kafka-integration.html, and the reference of ``max_by``.
Streams have no ``row_number``. A last bid is written again when a batch has changed it. A hot item is written once,
because one aggregation after another needs the output mode append.
"""

import sys

from pyspark.sql import functions as F

from evidence.engines.queries import messages, session, stateful, write

MESSAGE = (
    "bid struct<auction: long, bidder: long, price: long, channel: string, url: string, dateTime: timestamp, "
    "extra: string>"
)


def main() -> None:
    query, bootstrap, topic, output, workers, checkpoint, late_ms, jars = sys.argv[1:]
    of = {"spark.driver.memory": "2g", "spark.sql.session.timeZone": "UTC"}
    spark = session(query, workers, jars, stateful(workers) | of)
    read = messages(spark, bootstrap, topic, 2_000_000)
    message = F.from_json(F.col("value").cast("string"), MESSAGE)
    bids = read.select(message["bid"].alias("bid")).select("bid", "bid.*")
    if query == "q18":
        last = bids.groupBy("bidder", "auction").agg(F.max_by("bid", "dateTime").alias("bid"))
        results = last.select(F.concat_ws("/", "bidder", "auction").alias("key"), F.to_json("bid").alias("value"))
    else:
        window = F.window("dateTime", "10 seconds", "2 seconds").alias("window")
        counts = bids.withWatermark("dateTime", f"{late_ms} milliseconds").groupBy(window, "auction").count()
        hottest = counts.groupBy("window").agg(F.max(F.struct("count", "auction")).alias("hottest"))
        start = F.unix_millis("window.start").alias("start")
        record = F.struct(start, F.col("hottest.auction"), F.col("hottest.count").alias("num"))
        results = hottest.select(F.to_json(record).alias("value"))
    write(results, bootstrap, output, checkpoint, mode="update" if query == "q18" else "append")


if __name__ == "__main__":
    main()
