"""What Spark has shuffled, and its loss."""


def lose_what_was_shuffled(spark) -> None:
    tracker = spark.sparkContext._jvm.org.apache.spark.SparkEnv.get().mapOutputTracker()
    for shuffle in range(10_000):
        if tracker.containsShuffle(shuffle):
            tracker.unregisterAllMapAndMergeOutput(shuffle)
