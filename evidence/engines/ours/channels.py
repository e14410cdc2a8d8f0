"""NEXMark's query 16 in ours: `keyed_map` with a work that has a channel's counts and the ids that it has seen.

    python channels.py BOOTSTRAP TOPIC OUTPUT WORKERS CHECKPOINT GROUPING PARTITIONS JARS

After docs/library.md ("`keyed_map`", "Prepare a session") and docs/operators.md ("Write your own"). Spark reads the
JSON, and its own sink writes a channel's row again in each batch in which it has changed. A split channel is merged in
each batch.
"""

import sys

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import functions as F

from evidence.engines.jobs import STATISTICS
from evidence.engines.queries import messages, session, write
from unskew import keyed_map, spark_settings
from unskew.apps.operators.list_columns import gather_lists, repeat_slots
from unskew.grouping.registry import SINGLE_OWNER
from unskew.operators import MergeableOperator, Summary

BATCH = 400_000  # records
BID = "bid struct<auction long, bidder long, price long, channel string, dateTime string>"
#: An id's bits: itself, its kind (0: a bidder, 1: an auction), and the ranks of price in which it was seen.
_KIND, _RANKS = 1 << 3, 7
_ID_BITS = 44  # with these four; the others are the slot's
_COUNTS = STATISTICS[:4]


class Channels(Summary, MergeableOperator):
    """The statistics of a channel: its bids, its distinct bidders and auctions, of all and of each rank of price."""

    columns = ("bidder", "auction", "price", "minute")
    types = {name: pa.int64() for name in columns[:3]} | {"minute": pa.string()}
    state = pa.schema(
        [*((name, pa.int64()) for name in _COUNTS), ("minute", pa.string()), ("ids", pa.list_(pa.int64()))]
    )
    results = pa.schema([("minute", pa.string()), *((name, pa.int64()) for name in STATISTICS)])

    def to_state(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        bidder, auction, price = (self.column(tuples, name).to_numpy() for name in self.columns[:3])
        if (np.concatenate([bidder, auction]) >> (_ID_BITS - 4)).any():
            raise ValueError("an id isn't from 0 to 2⁴⁰ - 1")
        rank = (price >= 10_000).astype(np.int64) + (price >= 1_000_000)
        seen = np.column_stack([bidder * 2 * _KIND, auction * 2 * _KIND + _KIND]) + (1 << rank)[:, np.newaxis]
        offsets = pa.array(np.arange(0, 2 * len(rank) + 1, 2, dtype=np.int32))
        counts = [np.ones_like(rank), *(np.where(rank == each, 1, 0) for each in range(3))]
        columns = [*map(pa.array, counts), self.column(tuples, "minute")]
        ids = pa.ListArray.from_arrays(offsets, pa.array(seen.ravel()))
        return pa.RecordBatch.from_arrays([*columns, ids], schema=self.state)

    def merge(self, states: pa.RecordBatch, slots: pa.Array, keys: int) -> pa.RecordBatch:
        *numbers, ids = states.columns
        table = pa.table([slots, *numbers], ["slot", *_COUNTS, "minute"])
        how = [*((name, "sum") for name in _COUNTS), ("minute", "max")]
        summed = table.group_by("slot").aggregate(how).sort_by("slot")
        columns = [summed.column(f"{name}_{of}").combine_chunks() for name, of in how]
        owners, seen = union(repeat_slots(ids, slots.to_numpy()).to_numpy(), ids.flatten().to_numpy())
        lists = gather_lists(pa.array(owners), pa.array(seen), keys, self.state.field("ids").type)
        return pa.RecordBatch.from_arrays([*columns, lists], schema=self.state)

    def result(self, states: pa.RecordBatch) -> pa.RecordBatch:
        owners, seen, n = (
            repeat_slots(states.column("ids")).to_numpy(),
            states.column("ids").flatten().to_numpy(),
            len(states),
        )
        distinct = []
        for kind in (0, _KIND):
            of = seen & _KIND == kind
            ranks = [of, *(of & (seen & (1 << rank) != 0) for rank in range(3))]
            distinct += [pa.array(np.bincount(owners[which], minlength=n)) for which in ranks]
        slots = pa.array(np.arange(n, dtype=np.int32))
        minute, counts = states.column("minute"), states.columns[: len(_COUNTS)]
        return pa.RecordBatch.from_arrays([slots, minute, *counts, *distinct], ["slot", *self.results.names])


def union(owners: NDArray[np.int32], seen: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The ids of each owner once, with all ranks in which it was seen; they are ordered by owner and id.

    Raises ValueError: There are more than 2¹⁹ owners.
    """
    if len(owners) and owners.max() >> (63 - _ID_BITS):
        raise ValueError(f"{owners.max() + 1:,} keys in a batch of a worker; valid: up to {1 << (63 - _ID_BITS):,}")
    both = np.sort((owners.astype(np.int64) << _ID_BITS) | seen)
    ids = both & ~_RANKS
    begins = np.flatnonzero(np.diff(ids, prepend=-1))
    ranks = np.bitwise_or.reduceat(both & _RANKS, begins) if len(both) else both
    ids = ids[begins]
    return (ids >> _ID_BITS).astype(np.int32), (ids & ((1 << _ID_BITS) - 1)) | ranks


def main() -> None:
    bootstrap, topic, output, workers, checkpoint, grouping, partitions, jars = sys.argv[1:]
    of = spark_settings(workers=int(workers), cores=int(workers)) | {"spark.driver.memory": "2g"}
    spark = session(grouping, workers, jars, of)
    read = messages(spark, bootstrap, topic, BATCH)
    bids = read.select("partition", F.from_json(F.col("value").cast("string"), BID)["bid"].alias("bid"))
    at = F.col("bid.dateTime")
    owned = grouping in SINGLE_OWNER
    rows = keyed_map(
        bids.select("partition", "bid.*", at.substr(1, 10).alias("day"), at.substr(12, 5).alias("minute")),
        ["day", "channel"],
        int(workers),
        Channels(),
        grouping,
        checkpoint,
        ttl="2 days",
        merge_every=None if owned else "1 batch",
        source="partition",
        sources=int(partitions),
    )
    write(
        rows.select(F.concat_ws(" ", "day", "channel").alias("key"), F.to_json(F.struct("*")).alias("value")),
        bootstrap,
        output,
        checkpoint,
        every="0 seconds",
    )


if __name__ == "__main__":
    main()
