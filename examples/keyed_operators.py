"""Every keyed operator, over a small stream of a shop's clicks and mails, by ``keyed_map``.

    python examples/keyed_operators.py [WORK ...]

Half of the clicks are of one user, so that workers share its state: D_CHOICES gives it several, whose states meet after
each batch. Enriched and IntervalJoin can't be split: there a user stays at one worker, by KEY. A table shows the last
results of the hot user (of ``NaiveBayes``: the class of each mail).
"""

import os
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from unskew import keyed_map, spark_settings
from unskew.apps.driver.python_processes import prepare_python
from unskew.apps.operators.naive_bayes import PRIOR, classify_documents
from unskew.operators import (
    Distinct,
    DistinctCount,
    Enriched,
    Histogram,
    IntervalJoin,
    KeyedOperator,
    KllQuantiles,
    Latest,
    NaiveBayes,
    Quantiles,
    Sessions,
    Statistics,
    TopK,
)

WORKERS, BATCHES, CLICKS = 4, 3, 1000
START = 1_700_000_000_000  # ms since the epoch

#: Work → which stream, and which column is its key.
WORKS: dict[str, tuple[KeyedOperator, str, str]] = {
    "Statistics": (Statistics(value="seconds"), "clicks", "user"),
    "Distinct": (Distinct(id="click", kind="int64"), "clicks", "user"),
    "DistinctCount": (DistinctCount(id="page"), "clicks", "user"),
    "Sessions": (Sessions(gap=2.0), "clicks", "user"),
    "TopK": (TopK(item="page", k=3), "clicks", "user"),
    "Quantiles": (Quantiles(value="seconds"), "clicks", "user"),
    "KllQuantiles": (KllQuantiles(value="seconds"), "clicks", "user"),
    "Histogram": (Histogram(value="seconds"), "clicks", "user"),
    "Latest": (Latest(value="page", version="click"), "clicks", "user"),
    "Enriched": (Enriched(value="plan", id="click"), "clicks", "user"),
    "IntervalJoin": (IntervalJoin("200 ms", id="click", right="page string"), "clicks", "user"),
    "NaiveBayes": (NaiveBayes(label="class", document="mail"), "words", "word"),
}


def clicks() -> list[pa.Table]:
    """Clicks in batches of nine seconds, a minute apart; one in ten comes twice, one in fifty changes a plan."""
    random = np.random.default_rng(0)
    batches = []
    for number in range(BATCHES):
        users = np.where(random.random(CLICKS) < 0.5, 0, random.integers(1, 50, CLICKS))
        times = START + 60_000 * number + random.integers(0, 9000, CLICKS)
        changes = random.random(CLICKS) < 0.02
        batch = pa.table(
            {
                "user": [f"user {each}" for each in users],
                "at": pa.array(times, pa.timestamp("ms", "UTC")),
                "click": np.arange(CLICKS) + number * CLICKS,
                "page": [f"/{each}" for each in random.zipf(1.5, CLICKS) % 100],
                "seconds": random.lognormal(0, 1, CLICKS).round(3),
                "plan": pa.array(random.choice(["free", "gold"], CLICKS), mask=~changes),
            }
        )
        batches.append(pa.concat_tables([batch, batch.take(np.arange(0, CLICKS, 10))]))
    return batches


def words() -> list[pa.Table]:
    """Mails cut into words: those of the first batch have a class, those of the second are to be classified."""
    spam = {"1": ("spam", "win a prize now"), "2": ("spam", "win money")}
    learned = spam | {"3": ("ham", "lunch at noon"), "4": ("ham", "see you at lunch")}
    unclassified = {"5": (None, "win at lunch"), "6": (None, "a prize"), "7": (None, "see you")}
    batches = []
    for number, mails in enumerate((learned, unclassified)):
        rows = [
            (word, name, mail) for mail, (name, text) in mails.items() for word in (PRIOR, *sorted(set(text.split())))
        ]
        columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
        times = pa.array([START + 60_000 * number] * len(rows), pa.timestamp("ms", "UTC"))
        batches.append(pa.table([*columns, times], names=["word", "class", "mail", "at"]))
    return batches


STREAMS = {"clicks": clicks, "words": words}


def spark_session() -> SparkSession:
    """Spark with RocksDB, which ``keyed_map`` needs, and with settings that make its batches shorter."""
    os.environ["PYSPARK_PYTHON"] = prepare_python()
    return (
        SparkSession.builder.master("local[2]")
        .config(map=spark_settings(workers=WORKERS, cores=2))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )


def run(spark: SparkSession, name: str, folder: Path) -> list[dict[str, Any]]:
    """Run one work over its stream, a file a batch; returns all results, in the order of the batches."""
    work, stream, key = WORKS[name]
    files = folder / "stream"
    files.mkdir(parents=True)
    for number, batch in enumerate(STREAMS[stream]()):
        file = files / f"{number}.parquet"
        pq.write_table(batch, file)
        os.utime(file, (number, number))  # Spark reads files in the order of their times, which may be the same
    schema = spark.read.parquet(str(files)).schema
    events = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(files))
    grouping = "D_CHOICES" if work.mergeable else "KEY"
    results = keyed_map(
        events,
        key,
        WORKERS,
        work,
        grouping,
        str(folder / "checkpoint"),
        ttl=None if work.ttl_ms else 3600,
        time="at",
    )
    rows: list[dict[str, Any]] = []
    query = (
        results.writeStream.foreachBatch(lambda batch, _: rows.extend(row.asDict() for row in batch.collect()))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return rows


def last(name: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last version of each result: a newer one overwrites an older one with the same identity."""
    work, _, key = WORKS[name]
    kept = {(row[key], *(row[column] for column in work.identity)): row for row in rows}
    return list(kept.values())


def classes(rows: list[dict[str, Any]]) -> dict[str, str | None]:
    """The class of each mail, from the words' results."""
    answers: dict[str, dict[str, dict[str | None, int]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        answers[row["document"]][row["word"]][row["class"]] = row["count"]
    return classify_documents(answers)


def show(name: str, rows: list[dict[str, Any]]) -> None:
    """A few rows of the hot user as a table."""
    if name == "NaiveBayes":
        Console().print(f"{name}: {classes(rows)}")
        return
    mine = [row for row in rows if row["user"] == "user 0"]
    table = Table(*rows[0], title=f"{name}: {len(mine)} of {len(rows)} results")
    for row in mine[:5]:
        table.add_row(*(str(value) for value in row.values()))
    Console().print(table)


def main(names: list[str]) -> None:
    spark = spark_session()
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            show(name, last(name, run(spark, name, Path(folder))))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:] or list(WORKS))
