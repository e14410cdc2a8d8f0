"""Record event logs of six real queries in a session of plain Spark, and of what we have instead of the skewed ones.

    python -m tests.apps.diagnosis.record_event_logs FOLDER [--codec zstd] [--rest] [--only NAME,…] …

FOLDER/logs gets the event log of one application of two executors with a core each. Its jobs' group is NAME-plain or
NAME-balanced, a stream has that name. FOLDER/seconds.json has how long each query took. With --rest FOLDER/rest.json
has what the driver's REST API answered at the end: path → answer.
"""

import argparse
import json
import os
import sys
import time
import urllib.parse
import urllib.request
from functools import partial
from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from unskew import balanced_join, balanced_map, balanced_write

PARTITIONS = 6
#: What a row costs where it is sent to a service that isn't there (s). A stream's tasks also commit states.
A_ROW, A_ROW_OF_STREAM = 15e-6, 30e-6
ROWS = 300_000
BATCHES = 3
COUNTS = "user string, rows long"


def make_session(folder: Path, codec: str, rolling: bool, rest: bool, adaptive: bool) -> SparkSession:
    """A session as a user has it, but without what hides skew (broadcasts, and by default AQE)."""
    (folder / "logs").mkdir(parents=True)
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{folder.resolve() / 'logs'}",
        "spark.eventLog.rolling.enabled": str(rolling).lower(),
        "spark.eventLog.rolling.maxFileSize": "10m",
        "spark.eventLog.compress": str(codec != "none").lower(),
        "spark.eventLog.compression.codec": codec if codec != "none" else "zstd",
        "spark.ui.enabled": str(rest).lower(),
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.adaptive.enabled": str(adaptive).lower(),
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.sql.requireAllClusterKeysForCoPartition": "false",
        "spark.sql.warehouse.dir": f"file://{folder.resolve() / 'warehouse'}",
    }
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("record event logs")
    return builder.config(map=settings).getOrCreate()


def make_users(spark: SparkSession, rows: int, partitions: int = 4) -> DataFrame:
    """Four of five rows have one user."""
    user = "if(id % 5 < 4, 'hot', concat('user ', id % 300)) AS user"
    return spark.range(rows, numPartitions=partitions).selectExpr("id", user, "id % 97 AS price")


def call_service(rows: int, each: float = A_ROW) -> None:
    """Wait as for a service that takes so long for each row, on a machine of any speed."""
    time.sleep(rows * each)


def count_user(user, frame):
    call_service(len(frame))
    return pd.DataFrame({"user": [user[0]], "rows": [len(frame)]})


def count_users(batches, each=A_ROW):
    for batch in batches:
        call_service(batch.num_rows, each)
        frame = batch.select(["user"]).to_pandas().groupby("user").size().rename("rows").reset_index()
        yield from _to_arrow(frame)


def _to_arrow(frame):
    import pyarrow as pa  # noqa: PLC0415  it runs in a Python worker

    yield pa.RecordBatch.from_pandas(frame, preserve_index=False)


def run(results: DataFrame) -> None:
    """Compute results, and drop them."""
    results.write.format("noop").mode("overwrite").save()


def group_plain(spark: SparkSession, folder: Path) -> None:
    run(make_users(spark, ROWS).groupBy("user").applyInPandas(count_user, COUNTS))


def group_balanced(spark: SparkSession, folder: Path) -> None:
    counted = balanced_map(make_users(spark, ROWS), "user", PARTITIONS, count_users, COUNTS, "PLANNED")
    run(counted.groupBy("user").agg(F.sum("rows")))


def make_sides(spark: SparkSession, rows: int) -> tuple[DataFrame, DataFrame]:
    left = make_users(spark, rows).withColumn("note", F.sha2(F.col("id").cast("string"), 256))
    right = spark.range(5000).selectExpr("if(id = 0, 'hot', concat('user ', id)) AS user", "id AS number")
    return left, right


def write_joined(joined: DataFrame) -> None:
    """What is done with each row after the join: a digest of 1 KB."""
    digest = F.sha2(F.concat(F.repeat("note", 16), F.col("number").cast("string")), 512)
    run(joined.select("user", digest.alias("digest")))


def join_plain(spark: SparkSession, folder: Path, rows: int = 4 * ROWS) -> None:
    left, right = make_sides(spark, rows)
    write_joined(left.join(right, "user"))


def join_balanced(spark: SparkSession, folder: Path, rows: int = 4 * ROWS) -> None:
    left, right = make_sides(spark, rows)
    write_joined(balanced_join(left, right, "user", PARTITIONS))


def make_table(spark: SparkSession) -> DataFrame:
    country = "if(id % 5 < 4, 'Turkey', concat('country ', id % 60)) AS country"
    rows = spark.range(6 * ROWS, numPartitions=4).selectExpr("id", country)
    return rows.withColumn("note", F.sha2(F.col("id").cast("string"), 256))


def write_plain(spark: SparkSession, folder: Path) -> None:
    table = make_table(spark).repartition(PARTITIONS, "country")
    table.write.partitionBy("country").parquet(str(folder / "tables" / "plain"))


def write_balanced(spark: SparkSession, folder: Path) -> None:
    balanced_write(make_table(spark), str(folder / "tables" / "balanced"), by="country", workers=PARTITIONS)


def slow_plain(spark: SparkSession, folder: Path) -> None:
    """As many rows in each task; the executor whose Python is the first to say so takes four times as long."""
    mark = str(folder / "slow")

    def work(frames):
        for frame in frames:
            try:
                with open(mark, "x") as file:  # noqa: PTH123
                    file.write(str(os.getppid()))
            except FileExistsError:
                pass
            with open(mark) as file:  # noqa: PTH123
                slow = file.read() == str(os.getppid())
            time.sleep(0.5 if slow else 0.12)
            yield frame

    run(spark.range(24_000, numPartitions=24).mapInPandas(work, "id long"))


def even_plain(spark: SparkSession, folder: Path) -> None:
    users = spark.range(ROWS // 2, numPartitions=4).selectExpr("concat('user ', id % 600) AS user", "id")
    run(users.groupBy("user").applyInPandas(count_user, COUNTS))


def read_stream(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema("id long, user string").option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))


def drain(results: DataFrame, folder: Path, name: str) -> None:
    writer = results.writeStream.format("noop").queryName(name).outputMode("update").trigger(availableNow=True)
    writer.option("checkpointLocation", str(folder / "checkpoints" / name)).start().awaitTermination()


def stream_plain(spark: SparkSession, folder: Path) -> None:
    """A state of each user: the number of the rows."""

    def update(user, frames, state):
        rows = state.get[0] if state.exists else 0
        for frame in frames:
            call_service(len(frame), A_ROW_OF_STREAM)
            rows += len(frame)
        state.update((rows,))
        yield pd.DataFrame({"user": [user[0]], "rows": [rows]})

    counted = (
        read_stream(spark, folder)
        .groupBy("user")
        .applyInPandasWithState(update, COUNTS, "rows long", "update", "NoTimeout")
    )
    drain(counted, folder, "stream-plain")


def stream_balanced(spark: SparkSession, folder: Path) -> None:
    checkpoint = str(folder / "checkpoints" / "stream-balanced")
    stream = read_stream(spark, folder)
    work = partial(count_users, each=A_ROW_OF_STREAM)
    counted = balanced_map(stream, "user", PARTITIONS, work, COUNTS, checkpoint=checkpoint, window=2000)
    drain(counted, folder, "stream-balanced")


QUERIES = {
    "group-plain": group_plain,
    "group-balanced": group_balanced,
    "join-plain": join_plain,
    "join-balanced": join_balanced,
    "write-plain": write_plain,
    "write-balanced": write_balanced,
    "slow-plain": slow_plain,
    "even-plain": even_plain,
    "stream-plain": stream_plain,
    "stream-balanced": stream_balanced,
}


def prepare(spark: SparkSession, folder: Path) -> None:
    """The stream's files; and each executor has started its Python and has loaded what all queries use."""
    spark.sparkContext.setJobGroup("prepare", "prepare")
    users = make_users(spark, ROWS).select("id", "user")
    for number in range(BATCHES):
        part = users.where(f"floor(id / 5) % {BATCHES} = {number}").coalesce(1)
        part.write.mode("append").parquet(str(folder / "in"))
    few = make_users(spark, 3000, PARTITIONS)
    run(few.groupBy("user").applyInPandas(count_user, COUNTS))
    for join in (join_plain, join_balanced):  # so that their code is compiled: a short query is mostly that
        join(spark, folder, ROWS)
    few.repartition(PARTITIONS, "id").write.parquet(str(folder / "tables" / "prepared"))


def run_queries(spark: SparkSession, folder: Path, names: list[str]) -> dict[str, float]:
    seconds = {}
    for name in names:
        spark.sparkContext.setJobGroup(name, name)
        begin = time.monotonic()
        QUERIES[name](spark, folder)
        seconds[name] = round(time.monotonic() - begin, 3)
        print(f"{name}: {seconds[name]} s", flush=True)
    return seconds


def dump_rest(address: str) -> dict[str, object]:
    """The REST API's answers: path → answer."""
    answers: dict[str, object] = {}

    def ask(path: str) -> object:
        with urllib.request.urlopen(f"{address}/api/v1/{path}", timeout=30) as response:
            answers[path] = json.load(response)
        return answers[path]

    [application] = ask("applications")
    base = f"applications/{urllib.parse.quote(application['id'])}"
    for path in ("allexecutors", "environment", "jobs", "sql?details=true&planDescription=true&offset=0&length=1000"):
        ask(f"{base}/{path}")
    for stage in ask(f"{base}/stages?withSummaries=true&quantiles=0.5,1.0"):
        if stage["status"] == "COMPLETE":
            own = f"{base}/stages/{stage['stageId']}/{stage['attemptId']}"
            ask(f"{own}/taskList?offset=0&length=1000&sortBy=ID")
    return answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--codec", default="none")
    parser.add_argument("--rolling", action="store_true")
    parser.add_argument("--rest", action="store_true")
    parser.add_argument("--adaptive", action="store_true", help="with AQE")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[*QUERIES])
    given = parser.parse_args()
    folder = given.folder.resolve()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = make_session(folder, given.codec, given.rolling, given.rest, given.adaptive)
    try:
        prepare(spark, folder)
        (folder / "seconds.json").write_text(json.dumps(run_queries(spark, folder, given.only), indent=1))
        if given.rest:
            (folder / "rest.json").write_text(json.dumps(dump_rest(spark.sparkContext.uiWebUrl)))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
