"""What a batch costs on a steady stream, beside Spark's own groupBy(window, key).count() into Kafka.

    python -m evidence.speed.latency [--rates 1000,10000] [--seconds 120] [--rounds N] [--grouping NAME]

Each contestant has a fresh process and JVM, a topic of its own that is written to at the rate from its first moment on,
the same state store, windows and trigger. *Native* is Spark as it comes; the third contestant has what ours sets for
the JVM's start and the checkpoint's files. The tables have a batch's time as Spark reports it, and the latency of a
result: from its window's end to its record's time in Kafka, which leaves out the window's own wait. There is a table of
the first minute and one of what comes after it; the contestants run in turns, and the figures are of all rounds.
"""

import argparse
import multiprocessing
import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from multiprocessing.connection import Connection as Pipe
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

import numpy as np
import orjson
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evidence.speed.measuring import Bench, in_turns, keep_publishing, messages, open_bench
from evidence.speed.native import counted
from evidence.tables import make_table, print_table
from unskew.apps.aggregator.publisher import list_result_topics
from unskew.apps.driver.listeners import Follower, follow_progress
from unskew.apps.driver.session import open_session
from unskew.apps.driver.streaming_job import StreamingJob
from unskew.apps.driver.termination import stop_between_batches
from unskew.apps.settings import Settings
from unskew.kafka.topics import ensure_topic

#: Spark's own settings where we set others: no class data that `make setup` records, its own way to write a checkpoint.
AS_IT_COMES = {
    "spark.driver.extraJavaOptions": "-XX:+IgnoreUnrecognizedVMOptions",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
    ),
}
#: Name → the kind of contestant, and settings of Spark's.
CONTESTANTS: dict[str, tuple[str, dict[str, str]]] = {
    "ours": ("ours", {}),
    "native": ("native", AS_IT_COMES),
    "native, our settings": ("native", {}),
}
_WARM = 60.0  # s after which a contestant counts as warm

#: A batch: seconds since the contestant's query began, and Spark's progress of the batch.
Batch = tuple[float, Mapping[str, Any]]
#: A result: seconds from the first window's end to its own window's end, and its latency in s.
Result = tuple[float, float]


class Measured(NamedTuple):
    """What a contestant's run, or several of them, gave."""

    batches: list[Batch]
    results: list[Result]


def compete(name: str, run: Settings, pipe: Pipe) -> None:
    """Run a contestant for ``run.run_time``, in a process of its own.

    It sends ``ready`` when Spark has started, and its batches at the end.
    """
    batches: list[Batch] = []
    with open_session(run) as spark:
        pipe.send("ready")
        begun = time.monotonic()

        def append(progress: Mapping[str, Any]) -> None:
            batches.append((time.monotonic() - begun, progress))

        if name == "ours":
            StreamingJob(run, [], [append]).run(spark)
        else:
            native(spark, run, append)
    pipe.send(batches)


def native(spark: SparkSession, run: Settings, listener: Follower) -> None:
    """Run Spark's own count by window and key for ``run.run_time``, with its results in Kafka."""
    counts = counted(spark, run)
    message = F.struct("key", "count", F.unix_millis("window.end").alias("timestamp"))
    with follow_progress(spark, run.name, listener):
        query = (
            counts.select("key", F.to_json(message).alias("value"))
            .writeStream.queryName(run.name)
            .format("kafka")
            .options(**run.connection.spark())
            .option("topic", list_result_topics(run)["aggregator"])
            .option("checkpointLocation", run.checkpoint)
            .trigger(processingTime=f"{run.trigger} seconds")
            .start()
        )
        query.awaitTermination(run.run_time)  # pyright: ignore[reportArgumentType]  it takes floats, too
        stop_between_batches(query)


def choose_run(bench: Bench, name: str, label: str, grouping: str, **more: Any) -> tuple[str, Settings]:
    """A contestant's kind, and its run over a topic of its own, whose name has the label."""
    kind, conf = CONTESTANTS[name]
    topic = f"bench-{label}-{list(CONTESTANTS).index(name)}"
    how = {"topic": topic, "window": 2.0, "until_drained": False, "conf": conf}
    return kind, bench.settings(grouping, topic, **how, **more)


def begin(name: str, run: Settings) -> tuple[BaseProcess, Pipe]:
    """Start a contestant in a process of its own, over new topics; return when it is ready."""
    for topic in (run.topic, list_result_topics(run)["aggregator"]):
        ensure_topic(run.connection, topic, run.sources)
    here, there = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=compete, args=(name, run, there))
    process.start()
    assert here.recv() == "ready"
    return process, here


def race(name: str, run: Settings, rate: float) -> Measured:
    """Run a contestant beside its producer."""
    process, pipe = begin(name, run)
    with keep_publishing(run, rate):
        batches = pipe.recv()
    process.join()
    return Measured(batches, latencies(run))


def latencies(run: Settings) -> list[Result]:
    """The results in the run's topic."""
    written = messages(run.connection, list_result_topics(run)["aggregator"])
    found = [(orjson.loads(each.value() or b"")["timestamp"], each.timestamp()[1]) for each in written]
    first = min((end for end, _ in found), default=0)
    return [((end - first) / 1000, (at - end) / 1000) for end, at in found]


def find_percentile(values: Sequence[tuple[float, float]], q: float, *, warm: bool) -> float:
    """A percentile of values, each with its time (s), of the first minute, or of what comes after it."""
    chosen = [value for at, value in values if (at >= _WARM) == warm]
    return float(np.percentile(chosen, q)) if chosen else float("nan")


def figures(measured: Measured, *, warm: bool) -> dict[str, float]:
    """The figures of the first minute, or of what comes after it, in ms."""
    took = [(at, progress["durationMs"]["triggerExecution"]) for at, progress in measured.batches]
    waits = [(at, 1000 * latency) for at, latency in measured.results]
    found = {"batches": float(sum((at >= _WARM) == warm for at, _ in took))}
    for measure, values in (("batch", took), ("latency", waits)):
        for name, q in (("median", 50), ("p99", 99)):
            found[f"{measure}, {name}"] = find_percentile(values, q, warm=warm)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", default="10000", help="tuples/s, several separated by commas (default: 10000)")
    parser.add_argument("--seconds", type=float, default=90.0, help="of each contestant's run (default: 90)")
    parser.add_argument("--rounds", type=int, default=1, help="how often each contestant runs (default: 1)")
    parser.add_argument("--grouping", default="PARTIAL_KEY", help="of ours (default: PARTIAL_KEY)")
    arguments = parser.parse_args()
    with open_bench() as bench:
        for rate in map(float, arguments.rates.split(",")):

            def one(name: str, number: int, rate: float = rate) -> Measured:
                times = {"trigger": 1.0, "run_time": arguments.seconds}
                return race(*choose_run(bench, name, f"{rate:g}-{number}", arguments.grouping, **times), rate)

            rounds = in_turns({name: partial(one, name) for name in CONTESTANTS}, arguments.rounds)
            together = {
                name: Measured(*([*chain.from_iterable(of)] for of in zip(*runs, strict=True)))
                for name, runs in rounds.items()
            }
            _print(rate, together)


def _print(rate: float, measured: Mapping[str, Measured]) -> None:
    for warm in (False, True):
        found = {name: figures(measured[name], warm=warm) for name in CONTESTANTS}
        if not all(each["batches"] for each in found.values()):
            continue
        title = f"{rate:,.0f} tuples/s, {'after it' if warm else 'the first minute'} (ms)"
        table = make_table("", *CONTESTANTS, "ours / native", title=title)
        for figure in found["ours"]:
            values = [each[figure] for each in found.values()]
            table.add_row(
                figure, *(f"{each:,.0f}" for each in values), f"{values[0] / values[1]:.2f}" if values[1] else ""
            )
        print_table(table)


if __name__ == "__main__":
    main()
