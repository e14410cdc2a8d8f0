"""The part `streams` of `evidence.speed.joins`: two streams are joined, and a key gets hot in the third batch."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from evidence.speed.measuring import in_turns, run_files
from evidence.tables import make_table, print_table
from unskew import balanced_join, create, watch
from unskew.apps.metrics.balance_observation import BatchBalance
from unskew.grouping.split_join.plan import PAIR_COST

WORKERS, SALT, KEYS, FIRST_HOT = 16, 16, 20_000, 2
#: The hot key's shares of the left side's rows. Of the right side it has one row in 10,000.
SHARES, RIGHT_SHARE = (0.0, 0.01, 0.1, 0.5), 1e-4
BATCH_MS, WITHIN = 10_000, "10 seconds"
#: The left rows for each right one.
RATIO = 5


@dataclass(frozen=True)
class JoinRun:
    """What a run took a batch from the third hot one on: seconds, CPU seconds; and how its workers were loaded.

    ``fullest``: The fullest worker ÷ the mean, the median over these batches, and the most. The load is the rows that
    come, and ``PAIR_COST`` for each pair; of the mean, one copy of each row.
    ``sent``: Right rows that were sent ÷ right rows. ``copied``: Rows that were copied later, ÷ the rows of a batch.
    """

    seconds: float
    cpu: float
    fullest: tuple[float, float]
    sent: float
    copied: float

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s, {self.cpu:.2f} CPU s a batch, fullest {self.fullest[0]:.2f}"


def draw_side(rows: int, number: int, share: float, side: int) -> pa.Table:
    """A batch of a side. Besides the hot key, keys follow Zipf 0.8."""
    rng = np.random.default_rng([number, side])
    weights = np.arange(1, KEYS) ** -0.8
    key = 1 + np.searchsorted(np.cumsum(weights / weights.sum()), rng.random(rows))
    if number >= FIRST_HOT:
        key[rng.random(rows) < share] = 0
    ms = 1_700_000_000_000 + BATCH_MS * number + rng.integers(0, BATCH_MS, rows)
    return pa.table({"key": key, f"id{side}": np.arange(rows), "at": pa.array(ms, pa.timestamp("ms", "UTC"))})


def join_by_us(left: DataFrame, right: DataFrame, checkpoint: str) -> DataFrame:
    """Our way."""
    return balanced_join(
        left, right, "key", WORKERS, checkpoint=checkpoint, within=WITHIN, left_time="at", right_time="at",
        lateness="1 second", observe="own",
    )  # fmt: skip


def join_by_spark(left: DataFrame, right: DataFrame, _: str, salt: int = 1) -> DataFrame:
    """Spark's stream–stream join; every row may be salted, as one does who doesn't know the hot keys."""
    left, right = (
        side.withColumnRenamed("at", name).withWatermark(name, "1 second")
        for side, name in ((left, "left_at"), (right, "right_at"))
    )
    left = left.withColumn("salt", F.floor(F.rand(1) * salt).cast("int"))
    right = right.withColumn("salt", F.explode(F.array(*map(F.lit, range(salt))))).withColumnRenamed("key", "key1")
    bounds = f"right_at BETWEEN left_at - INTERVAL {WITHIN} AND left_at + INTERVAL {WITHIN}"
    return left.alias("l").join(right.alias("r"), F.expr(f"key = key1 AND l.salt = r.salt AND {bounds}"))


#: Name → the join.
WAYS: dict[str, Callable[[DataFrame, DataFrame, str], DataFrame]] = {
    "Spark's own": join_by_spark,
    f"… salted by hand, {SALT}": partial(join_by_spark, salt=SALT),
    "`balanced_join`": join_by_us,
}


def run_streams(spark: SparkSession, way: str, share: float, rows: int, batches: int, _: int) -> JoinRun:
    """A run of so many batches, each of this many left rows."""
    sizes, shares = (rows, rows // RATIO), (share, RIGHT_SHARE if share else 0.0)
    drawn = [[draw_side(sizes[side], number, shares[side], side) for side in (0, 1)] for number in range(batches)]
    ddls = [f"key long, id{side} long, at timestamp" for side in (0, 1)]
    taken, ours = run_files(spark, ddls, WAYS[way], drawn, read_loads if way == "`balanced_join`" else lambda _: [])
    ours = [batch for batch in ours if batch.tuples]
    from_here = FIRST_HOT + 2
    cpu, seconds = (float(np.median(each)) for each in zip(*taken[from_here:], strict=True))
    if ours:
        loads = [(np.array(batch.loads), np.array(batch.pairs)) for batch in ours]
    else:
        loads = _hash_loads(drawn, SALT if "salted" in way else 1)
    fullest = []
    for came, pairs in loads[from_here:]:
        mean = (sum(sizes) + PAIR_COST * pairs.sum()) / WORKERS
        fullest.append(float((came + PAIR_COST * pairs).max() / mean))
    sent = float(np.mean([(came.sum() - sizes[0]) / sizes[1] for came, _ in loads[from_here:]]))
    copied = float(np.mean([batch.moved for batch in ours[1:]])) / sum(sizes) if ours else 0.0
    return JoinRun(seconds, cpu, (float(np.median(fullest)), max(fullest)), sent, copied)


def read_loads(query: StreamingQuery) -> list[BatchBalance]:
    """How the workers of each batch were loaded, of a call with ``observe="own"``."""
    return watch(query, name="own").rows()


def _hash_loads(drawn: list[list[pa.Table]], salt: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The rows and the pairs of each worker in each batch, by a hash of the key and its salt."""
    router, rng = create("KEY", WORKERS), np.random.default_rng(0)
    found: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    before: list[tuple[NDArray[np.int64], NDArray[np.int32]]] = []
    others: list[NDArray[np.int64]] = []
    for left, right in drawn:
        keys = (left["key"].to_numpy() * salt + rng.integers(0, salt, len(left)), right["key"].to_numpy() * salt)
        workers = [router.route(keys[0]), router.route((keys[1][:, None] + np.arange(salt)).reshape(-1))]
        came = np.bincount(np.concatenate(workers), minlength=WORKERS)
        lines = [side["key"].to_numpy() * (1 << 42) + side["at"].cast(pa.int64()).to_numpy() for side in (left, right)]
        # What comes meets what has come before, and the batch's own rows meet.
        meeting = [(lines[0], workers[0], [*others, lines[1]]), *((rows, of, [lines[1]]) for rows, of in before)]
        pairs = np.zeros(WORKERS, np.int64)
        for rows, of, partners in meeting:
            for ordered in map(np.sort, partners):
                bounds = (
                    np.searchsorted(ordered, rows + way * BATCH_MS, side) for way, side in ((1, "right"), (-1, "left"))
                )
                pairs += np.bincount(of, np.subtract(*bounds), WORKERS).astype(np.int64)
        found.append((came, pairs))
        before, others = [(lines[0], workers[0])], [lines[1]]
    return found


def compare_streams(spark: SparkSession, rows: int, batches: int, repeats: int) -> None:
    """The table of joins of streams."""
    table = make_table(
        "hot key", "", "fullest ÷ mean", "most", "right side sent", "copied, % of a batch", "s a batch", "CPU s", left=2
    )
    for share in SHARES:
        contestants = {way: partial(run_streams, spark, way, share, rows, batches) for way in WAYS}
        for way, runs in in_turns(contestants, repeats, str).items():
            seconds, cpu, sent, copied = (
                float(np.median([getattr(run, what) for run in runs])) for what in ("seconds", "cpu", "sent", "copied")
            )
            fullest = (f"{np.median([run.fullest[at] for run in runs]):.2f}" for at in (0, 1))
            figures = (
                f"× {sent:.2f}",
                f"{100 * copied:.2f}" if "balanced" in way else "–",
                f"{seconds:.2f}",
                f"{cpu:.2f}",
            )
            table.add_row(f"{share:.0%}", way, *fullest, *figures)
    print_table(table)
