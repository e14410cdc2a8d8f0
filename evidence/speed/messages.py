"""Messages as people have them, all different: the topology beside Spark's own groupBy from the same topic.

    python -m evidence.speed.messages [--records N] [--groupings KEY,...] [--repeats N]

They are orders: JSON of 225 bytes. The key is ``user.id``, of which one has 80 %. Spark gets it by ``from_json`` or by
``get_json_object``. Tuples cost nothing (x0), and the contestants run in turns. The first batch isn't counted in the
rate; the CPU is that of the whole run, without the start of the session.

Another table has what reading the key alone costs, in one process: ours, ``orjson`` into a whole document, and Arrow's
reader of JSON for this one field.
"""

import argparse
import io
import random
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.json as pj
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from rich.table import Table

from evidence.speed.measuring import SOURCES, RunCost, in_turns, measure_run, open_bench, ours
from evidence.speed.native import native
from evidence.tables import make_table, print_table
from unskew.apps.driver.session import open_session
from unskew.apps.settings import Settings
from unskew.apps.splitter.json_fields import JsonFields
from unskew.kafka.topics import ensure_topic
from unskew.producers.datasets.interface import Block, GeneratedDataset
from unskew.producers.publish import publish_dataset

ALONE = 100_000  # messages that are read in one process
#: How Spark's own query reads the key → the expression.
NATIVE: dict[str, Callable[[Column], Column]] = {
    "groupBy, from_json": lambda text: F.from_json(text, "user struct<id: string>")["user"]["id"],
    "groupBy, get_json_object": lambda text: F.get_json_object(text, "$.user.id"),
}


def make_order(rng: random.Random, number: int) -> dict[str, object]:
    """An order of a shop."""
    return {
        "order_id": number,
        "user": {"id": "user-0" if rng.random() < 0.8 else f"user-{rng.randrange(5_000)}", "country": "tr"},
        "at": f"2026-11-28T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}.123+01:00",
        "amount": round(rng.random() * 100, 2),
        "currency": "EUR",
        "items": [{"sku": f"sku-{rng.randrange(1_000)}", "n": 1}, {"sku": f"sku-{rng.randrange(1_000)}", "n": 2}],
        "paid": True,
        "note": "leave at the door",
    }


class Orders(GeneratedDataset):
    """Orders of 225 bytes."""

    name, summary, chunk = "ORDERS", "orders, 80 % of them of one user", 1 << 16

    def _draw(self, rng: np.random.Generator, first: int) -> Block:
        drawn = random.Random(int(rng.integers(1 << 32)))
        messages = [orjson.dumps(make_order(drawn, number)) for number in range(first, first + self.chunk)]
        return Block(pa.array(messages, pa.binary()), pa.array([], pa.string()), np.empty(0, np.int32))


def measure(spark: SparkSession, name: str, run: Settings, records: int) -> RunCost:
    """Run a contestant over the whole topic."""
    if name in NATIVE:
        key = NATIVE[name](F.col("value").cast("string"))
        return measure_run(partial(native, spark, run, records, key=key))
    return measure_run(partial(ours, spark, run))


def read_by_arrow(bodies: list[bytes]) -> pa.Array:
    """The keys by Arrow's reader, which takes a line a message."""
    schema = pa.schema([("user", pa.struct([("id", pa.string())]))])
    options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    table = pj.read_json(io.BytesIO(b"\n".join(bodies)), pj.ReadOptions(use_threads=False), options)
    return table.column("user")


def measure_readers(repeats: int) -> Table:
    """The table of readers: the CPU of reading the keys in this process."""
    rng = random.Random(1)
    bodies = [orjson.dumps(make_order(rng, number)) for number in range(ALONE)]
    messages, fields = pa.array(bodies, pa.binary()), JsonFields.column("user.id")
    readers: dict[str, Callable[[], object]] = {
        "ours": lambda: fields.read(messages),
        "orjson, the whole document": lambda: [orjson.loads(body)["user"]["id"] for body in bodies],
        "Arrow's JSON reader": lambda: read_by_arrow(bodies),
    }

    def spend(reader: Callable[[], object], _: int) -> float:
        begun = time.process_time()
        reader()
        return time.process_time() - begun

    measured = in_turns({name: partial(spend, reader) for name, reader in readers.items()}, repeats)
    table = make_table("", "CPU s a million")
    for name, taken in measured.items():
        table.add_row(name, f"{statistics.median(taken) / ALONE * 1e6:.2f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=6_000_000)
    parser.add_argument("--groupings", default="KEY,BOUNDED_LOAD")
    parser.add_argument("--max-tuples", type=int, default=1_000_000, help="messages a batch, of all contestants")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    groupings = given.groupings.split(",")
    if given.records < 2 * given.max_tuples:
        parser.error(f"--records is {given.records:,}; valid: two batches of {given.max_tuples:,}, or more")
    print_table(measure_readers(given.repeats))
    table = make_table("", "messages/s", "× from_json", "CPU s a million")
    with open_bench() as bench:
        ensure_topic(bench.connection, "orders", SOURCES)
        published = publish_dataset(bench.connection, "orders", Orders(given.records))
        how = {"source_type": "COLUMN", "key_field": "user.id", "max_tuples": given.max_tuples, "topic": "orders"}
        with open_session(bench.settings(groupings[0], "first", **how), groupings) as spark:

            def run(name: str, repeat: int) -> RunCost:
                grouping = name if name in groupings else groupings[0]
                return measure(spark, name, bench.settings(grouping, f"{name}-{repeat}", **how), given.records)

            contestants = {name: partial(run, name) for name in [*groupings, *NATIVE]}
            measured = in_turns(contestants, given.repeats, lambda one: f"{one.rate:,.0f} messages/s")
    base = statistics.median(one.rate for one in measured["groupBy, from_json"])
    for name, runs in measured.items():
        median = statistics.median(one.rate for one in runs)
        spent = statistics.median(sum(one.cpu.values()) for one in runs)
        table.add_row(name, f"{median:,.0f}", f"{median / base:.2f}", f"{spent / given.records * 1e6:.2f}")
    print_table(table)
    print(f"{given.records:,} messages of {published.size / given.records:.0f} bytes in the mean")


if __name__ == "__main__":
    main()
