"""One run: keys are filled in, tuples come steadily, keys move, and at the end the query is started anew."""

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from benchmarks.migration import feed
from benchmarks.migration.forcing import Forcing, Move
from unskew.apps.run.run import Run
from unskew.apps.run.session import session
from unskew.apps.topology.publisher import result_topics
from unskew.apps.topology.settings import Settings
from unskew.apps.topology.sink import BatchReport
from unskew.deploy.client.connection import Connection
from unskew.deploy.client.topics import end_offsets, ensure_topic
from unskew.deploy.servers.broker import Broker
from unskew.grouping.keys import hash_keys
from unskew.works import Running

SOURCES, TOPIC = 4, "migration"
_FILL = 100_000  # tuples a batch at most

Measure = Callable[[Connection, str, Mapping[int, int], list[str]], NDArray[np.float64]]


@dataclass(frozen=True)
class Plan:
    """What is to be done."""

    keys: int
    workers: int
    rate: float
    shares: tuple[float, ...]
    every: float

    @property
    def moves(self) -> list[Move]:
        """There and back, share by share."""
        both = [(share, back) for share in self.shares for back in (False, True)]
        return [Move(at * self.every, share, back) for at, (share, back) in enumerate(both)]


@dataclass(frozen=True)
class Batch:
    """When a batch began and how long it took, ms; its tuples by worker."""

    began: float
    took: float
    loads: NDArray[np.int64]


@dataclass(frozen=True)
class Moved:
    """What moved, at which batches: that which hands out, and the first that is routed by it; was the query stopped?"""

    what: str
    stops: bool
    states: int
    size: int
    out: int
    into: int


@dataclass(frozen=True)
class Done:
    """What came of it; ``stopped``: when the query was; ``steady``: the first batch of the steady stream."""

    keys: int
    batches: dict[int, Batch]
    moved: list[Moved]
    steady: int
    stopped: float
    latencies: NDArray[np.float64]


def experiment(plan: Plan, say: Callable[[str], None], measure: Measure) -> Done:
    """Run it with a broker and Spark of its own."""
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "kafka") as broker:
        connection = Connection(broker.bootstrap_servers)
        settings = Settings(
            mode="LOCAL", source_type="COLUMN", grouping="MIXED", source_name=TOPIC, sources=SOURCES,
            workers=plan.workers, speed="x0", connection=connection, checkpoint=str(Path(folder) / "checkpoint"),
            window=5.0, trigger=0.0, max_tuples=_FILL, format="text", work=Running("offset"), ttl=86_400.0,
            options={"theta_max": 1e9, "table_max": plan.keys},
        )  # fmt: skip
        ensure_topic(connection, TOPIC, SOURCES)
        say(f"{plan.keys:,} keys come once")
        feed.fill(connection, TOPIC, SOURCES, plan.keys)
        with session(settings) as spark:
            return _follow(spark, plan, settings, say, measure)


def _follow(spark: SparkSession, plan: Plan, settings: Settings, say: Callable[[str], None], measure: Measure) -> Done:
    hashes = hash_keys(pa.array(map(str, range(plan.keys))))
    forcing = Forcing(settings, hashes, plan.moves)
    progress: dict[int, tuple[float, float]] = {}
    begun = time.time() - time.monotonic()

    def tell(told: Mapping[str, Any]) -> None:
        took = told["durationMs"]["triggerExecution"]
        progress[told["batchId"]] = 1000 * (begun + time.monotonic()) - took, took

    first = Run(replace(settings, until_drained=True), [forcing], [tell]).run(spark)
    assert first.drained
    start, filled = end_offsets(settings.connection, TOPIC), max(progress)
    with feed.steady(settings.connection, TOPIC, SOURCES, plan.keys, plan.rate):
        say(f"{plan.rate:,.0f} tuples/s come, for {(len(plan.moves) + 1) * plan.every:.0f} s or more")
        forcing.begun = time.monotonic() + plan.every  # Spark warms up

        _until(spark, settings, forcing, tell, lambda: forcing.over(len(plan.moves), plan.every))
        stopped = 1000 * time.time()
        say("the query is stopped, and goes on with a worker more")
        last = max(progress)
        more = replace(settings, workers=plan.workers + 1)
        _until(spark, more, forcing, tell, lambda: forcing.over(len(plan.moves) + 1, plan.every))
    return Done(
        plan.keys,
        {number: Batch(*progress[number], loads) for number, loads in forcing.loads.items()},
        _moved(forcing, last + 1),
        filled + 1,
        stopped,
        measure(settings.connection, TOPIC, start, [result_topics(each)["results"] for each in (settings, more)]),
    )


def _until(
    spark: SparkSession,
    settings: Settings,
    forcing: Forcing,
    tell: Callable[[Mapping[str, Any]], None],
    over: Callable[[], bool],
) -> None:
    def ending(_: BatchReport) -> None:
        if over():
            run.stop()

    run = Run(settings, [forcing, ending], [tell])
    run.run(spark)


def _moved(forcing: Forcing, again: int) -> list[Moved]:
    """What the run told of plans; ``again`` is the first batch after it was started again."""
    moves = {number: str(move) for move, number in forcing.made}
    found = []
    for told in forcing.rebalances:
        what = f"stopped, then {told.workers} workers" if told.workers else moves[told.made - 1]
        out = again if told.workers else told.made + 1
        found.append(Moved(what, bool(told.workers), told.keys or 0, told.bytes, out, told.batch))
    return found
