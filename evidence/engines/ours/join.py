"""The join in ours: `balanced_join` of two streams, or `keyed_map` with the operator ``IntervalJoin`` and KEY.

    python join.py BOOTSTRAP LEFT RIGHT OUTPUT WORKERS CHECKPOINT FORM LATE_MS JARS

After docs/library.md ("`balanced_join`", "`keyed_map`", "Prepare a session") and docs/operators.md. FORM is
``balanced_join`` or ``KEY``. In the first batch no key is known to be hot, so
batches are a small part of the streams. Spark's own sink writes the pairs.
"""

import sys
from datetime import timedelta

from pyspark.sql import functions as F

from evidence.engines.joins import WITHIN_MS
from evidence.engines.queries import read_sides, session, write
from unskew import balanced_join, keyed_map, spark_settings
from unskew.operators import IntervalJoin


def main() -> None:
    bootstrap, *topics, output, workers, checkpoint, form, late_ms, jars = sys.argv[1:]
    of = spark_settings(workers=int(workers), cores=int(workers)) | {"spark.driver.memory": "2g"}
    spark = session(form, workers, jars, of)
    left, right = read_sides(spark, bootstrap, topics)
    within, lateness = (timedelta(milliseconds=int(ms)) for ms in (WITHIN_MS, late_ms))
    if form == "KEY":
        pairs = keyed_map(
            [left.withColumn("second", F.lit(False)), right.withColumn("second", F.lit(True))],
            "key",
            int(workers),
            IntervalJoin(within, side="second"),
            form,
            checkpoint,
            time="at",
            lateness=lateness,
        ).select("key", F.col("left_id").alias("left"), F.col("right_id").alias("right"))
    else:
        pairs = balanced_join(
            left,
            right,
            "key",
            int(workers),
            checkpoint=checkpoint,
            within=within,
            left_time="at",
            right_time="at",
            lateness=lateness,
        ).select("key", F.col("id").alias("left"), F.col("id_right").alias("right"))
    write(pairs.select(F.to_json(F.struct("*")).alias("value")), bootstrap, output, checkpoint, every="0 seconds")


if __name__ == "__main__":
    main()
