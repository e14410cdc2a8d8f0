"""What `keyed_map` has told when `availableNow` ends: by event time it depends on the messages alone.

The same sessions are told whatever the grouping, the size of the batches and the pauses between them, and they are
those of Spark's `session_window`.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.apps.conftest import publish
from tests.apps.stateful.in_time import in_time
from tests.sessions import sessions
from unskew import keyed_map
from unskew.kafka.connection import Connection
from unskew.operators import Sessions

BIDS, START = 3_000, 1_700_000_000_000
# Tuples have even times, so no session ends with the watermark to the millisecond: there Spark would tell it, though a
# tuple that is not late could still lengthen it.
GAP_MS, LATENESS_MS = 4_000, 5_001

Session = tuple[str, int, int, int]  # bidder, start, last (ms), bids


def bids(seed: int) -> list[tuple[str, int]]:
    """Bidder and time (ms) of each bid, as NEXMark has them: a few hot bidders, the others come and go; 60 s."""
    rng = np.random.default_rng(seed)
    hot = rng.random(BIDS) < 0.5
    active = np.arange(BIDS) // 20
    bidders = np.where(hot, active // 50 * 50, active + rng.integers(0, 40, BIDS))
    ms = START + 20 * np.arange(BIDS) - 2 * rng.integers(0, (LATENESS_MS - 100) // 2, BIDS)
    return list(zip(map(str, bidders.tolist()), ms.tolist(), strict=True))


def over(stream: list[tuple[str, int]]) -> Iterator[Session]:
    """The sessions that are over when all bids have come."""
    watermark = max(ms for _, ms in stream) - LATENESS_MS
    return (each for each in sessions(stream, GAP_MS) if each[2] + GAP_MS < watermark)


def told(df: DataFrame, checkpoint: Path, pause: float = 0.0) -> list[Session]:
    """Run a query of sessions until nothing is left to read; sorted."""
    found: dict[int, list[Session]] = {}

    def keep(rows: DataFrame, batch: int) -> None:
        found[batch] = [(row["bidder"], row["start"], row["last"], row["count"]) for row in rows.collect()]
        time.sleep(pause)

    writer = df.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
    in_time(lambda _: writer.trigger(availableNow=True).start().awaitTermination())
    return sorted(session for batch in found.values() for session in batch)


@pytest.mark.takes(25)
def test_sessions(spark: SparkSession, connection: Connection, topic: str, tmp_path: Path) -> None:
    """A splitting grouping, in batches of a quarter of the bids."""
    expected, stream = sent(connection, topic, 0)
    results = told(ours(stream(spark, 750), "D_CHOICES", tmp_path), tmp_path)
    assert len({bidder for bidder, *_ in expected}) < len(expected)
    assert results == expected


@pytest.mark.nightly(group="keyed")
@pytest.mark.takes(40)
@pytest.mark.parametrize(
    ("grouping", "batch", "pause", "more"),
    [
        ("KEY", 600, 0.0, {}),
        ("KEY", BIDS, 0.0, {}),
        ("D_CHOICES", 600, 3.0, {}),
        ("BOUNDED_LOAD", 1_000, 0.0, {}),
        ("BOUNDED_LOAD", BIDS, 0.0, {}),
        ("D_CHOICES", 1_000, 0.0, {"merge_every": "1000s"}),
        ("session_window", 600, 0.0, {}),
        ("session_window", BIDS, 0.0, {}),
    ],
)
def test_what_is_told_depends_on_the_messages_alone(
    grouping, batch, pause, more, spark, connection, topic, tmp_path
) -> None:
    expected, stream = sent(connection, topic, 1)
    arriving = stream(spark, batch)
    df = theirs(arriving) if grouping == "session_window" else ours(arriving, grouping, tmp_path, **more)
    assert told(df, tmp_path, pause) == expected


def sent(connection, topic, seed):
    """Publish bids; the sessions to expect, and a stream of them in batches of a number of bids."""
    stream = bids(seed)
    publish(connection, topic, 2, [bidder.encode() for bidder, _ in stream], ms=[ms for _, ms in stream])

    def reading(spark, batch):
        kafka = {
            "kafka.bootstrap.servers": connection.bootstrap_servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": batch,
        }
        messages = spark.readStream.format("kafka").options(**kafka).load()
        return messages.select(F.col("value").cast("string").alias("bidder"), F.col("timestamp").alias("at"))

    return sorted(over(stream)), reading


def ours(stream, grouping, checkpoint, **more):
    work = Sessions(gap=GAP_MS / 1000)
    return keyed_map(
        stream, "bidder", 4, work, grouping, str(checkpoint), time="at", lateness=LATENESS_MS / 1000, **more
    )


def theirs(stream):
    window = F.session_window("at", f"{GAP_MS} milliseconds")
    counted = stream.withWatermark("at", f"{LATENESS_MS} milliseconds").groupBy(window, "bidder").count()
    last = F.unix_millis("session_window.end") - GAP_MS
    return counted.select("bidder", F.unix_millis("session_window.start").alias("start"), last.alias("last"), "count")
