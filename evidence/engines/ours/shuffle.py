"""After ShuffleBench in ours: `mapInArrow` gives a record to its consumers, `keyed_map` counts.

    python shuffle.py BOOTSTRAP TOPIC OUTPUT WORKERS FOLDER GROUPING PARTITIONS JARS

After docs/library.md ("`keyed_map`", "Prepare a session") and docs/operators.md ("Write your own"). FOLDER has the
segments (`matcher`), and gets the checkpoint. Spark's own sink writes the events.

Where a consumer is at one worker, an event is what it knows at the tenth record: ``AtEachTenth``. Where it is split, no
worker knows which record is the tenth. Then each batch merges the workers' states, and gives the events whose numbers
were passed since the batch before, with what is known at the merge: ``AtMerges``.
"""

import sys

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import functions as F

from evidence.engines.matcher import EVERY, TUPLES, first_longs, tuples
from evidence.engines.queries import messages, session, write
from unskew import keyed_map, spark_settings
from unskew.grouping.registry import SINGLE_OWNER
from unskew.operators import KeyedOperator, MergeableOperator, Now

#: Records a batch, of which a fifth goes to the workers.
BATCH = 400_000
_STATE = pa.schema([(name, pa.int64()) for name in ("count", "sum", "first", "last")])


class AtEachTenth(KeyedOperator):
    """Counts the records of a consumer, and gives its event at each tenth."""

    columns = ("value", "at")
    state = _STATE
    results = pa.schema([("count", pa.int64()), ("event", pa.binary())])
    identity = ("count",)

    def update(
        self, tuples: pa.RecordBatch, states: pa.RecordBatch, now: Now
    ) -> tuple[pa.RecordBatch | None, pa.RecordBatch]:
        slots = tuples.column("slot").to_numpy()
        order = np.argsort(slots, kind="stable")
        slots, at = slots[order], self.column(tuples, "at").to_numpy()[order]
        ends = np.searchsorted(slots, np.arange(states.num_rows), "right") - 1
        begins = np.append(-1, ends[:-1]) + 1
        count, total, first, _ = (column.fill_null(0).to_numpy() for column in states.columns)
        sums = np.append(0, np.cumsum(first_longs(self.column(tuples, "value"))[order]))
        first = np.where(count == 0, at[begins], first)
        n = count[slots] + np.arange(len(slots)) - begins[slots] + 1
        after = n, total[slots] + sums[1:] - sums[begins][slots], first[slots], at
        due = n % EVERY == 0
        kept = pa.RecordBatch.from_arrays([pa.array(column[ends]) for column in after], schema=self.state)
        return _events(slots[due], *(column[due] for column in after)), kept


class AtMerges(MergeableOperator):
    """Counts the records of a consumer, and gives at each merge the events that have become due."""

    columns = ("value", "at")
    state = _STATE
    results = AtEachTenth.results
    identity = ("count",)

    def to_state(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        at = self.column(tuples, "at")
        longs = pa.array(first_longs(self.column(tuples, "value")))
        return pa.RecordBatch.from_arrays([pa.array(np.ones(len(at), np.int64)), longs, at, at], schema=self.state)

    def merge(self, states: pa.RecordBatch, slots: pa.Array, keys: int) -> pa.RecordBatch:
        table = pa.table([slots, *states.columns], ["slot", *self.state.names])
        how = {"count": "sum", "sum": "sum", "first": "min", "last": "max"}
        merged = table.group_by("slot").aggregate([*how.items()]).sort_by("slot")
        columns = [merged.column(f"{name}_{of}").combine_chunks() for name, of in how.items()]
        return pa.RecordBatch.from_arrays(columns, schema=self.state)

    def on_merge(
        self, before: pa.RecordBatch, after: pa.RecordBatch, now: Now
    ) -> tuple[pa.RecordBatch | None, pa.RecordBatch]:
        count, *others = (column.to_numpy() for column in after.columns)
        passed = before.column("count").fill_null(0).to_numpy() // EVERY
        events = count // EVERY - passed
        slots = np.repeat(np.arange(len(count)), events)
        number = np.arange(len(slots)) - np.repeat(np.cumsum(events) - events, events) + passed[slots] + 1
        return _events(slots, EVERY * number, *(column[slots] for column in others)), after


def _events(slots: NDArray[np.integer], *state: NDArray[np.int64]) -> pa.RecordBatch:
    """The events of these slots, each with a state of 32 bytes: four longs, big-endian."""
    content = pa.py_buffer(np.column_stack(state).astype(">i8").tobytes())
    events = pa.Array.from_buffers(pa.binary(8 * len(state)), len(slots), [None, content]).cast(pa.binary())
    return pa.RecordBatch.from_arrays(
        [pa.array(slots.astype(np.int32)), pa.array(state[0]), events], ["slot", *AtEachTenth.results.names]
    )


def main() -> None:
    bootstrap, topic, output, workers, folder, grouping, partitions, jars = sys.argv[1:]
    of = spark_settings(workers=int(workers), cores=int(workers)) | {"spark.driver.memory": "2g"}
    spark = session(grouping, workers, jars, of)
    read = messages(spark, bootstrap, topic, BATCH)
    matched = read.select("value", F.unix_millis("timestamp").alias("at"), "partition")
    owned = grouping in SINGLE_OWNER
    events = keyed_map(
        matched.mapInArrow(tuples(folder), TUPLES),
        "consumer",
        int(workers),
        AtEachTenth() if owned else AtMerges(),
        grouping,
        f"{folder}/checkpoint",
        ttl="1 day",
        merge_every=None if owned else "1 batch",
        source="partition",
        sources=int(partitions),
    )
    write(
        events.select(F.col("consumer").alias("key"), F.col("event").alias("value")),
        bootstrap,
        output,
        f"{folder}/checkpoint",
        every="0 seconds",
    )


if __name__ == "__main__":
    main()
