"""Messages as people have them, all different: the topology beside Spark's own groupBy from the same topic.

    python -m evidence.speed.messages [--kinds NAME ...] [--records N] [--groupings KEY,...] [--repeats N]

The kinds are ``orders`` (JSON of 225 bytes) and ``nested`` (orders of 1 KB, of three levels). The key is ``user.id``,
of which one has 80 %. Spark gets it by ``from_json`` or by ``get_json_object``. Tuples cost nothing (x0), and the
contestants run in turns. The first batch isn't counted in the rate; the CPU is that of the whole run, without the start
of the session.

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

from evidence.speed.measuring import SOURCES, RunCost, in_turns, measure_run, open_bench, ours
from evidence.speed.native import native
from evidence.tables import make_table, print_table
from unskew.apps.driver.session import open_session
from unskew.apps.settings import Settings
from unskew.apps.splitter.json_fields import JsonFields
from unskew.kafka.connection import Connection
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


def make_nested(rng: random.Random, number: int) -> dict[str, object]:
    """An order with addresses and ten items, of three levels."""
    address = {
        "street": f"{rng.randrange(200)} High Street",
        "city": "Leeds",
        "geo": {"lat": rng.random(), "lon": -1.5},
    }
    items = [
        {"sku": f"sku-{rng.randrange(1_000)}", "n": 1, "price": {"net": rng.random(), "vat": 20}} for _ in range(10)
    ]
    return make_order(rng, number) | {"shipping": address, "billing": address, "items": items}


class Orders(GeneratedDataset):
    """Orders of 225 bytes."""

    name, summary, chunk = "ORDERS", "orders, 80 % of them of one user", 1 << 16
    make = staticmethod(make_order)

    def _draw(self, rng: np.random.Generator, first: int) -> Block:
        drawn = random.Random(int(rng.integers(1 << 32)))
        messages = [orjson.dumps(self.make(drawn, number)) for number in range(first, first + self.chunk)]
        return Block(pa.array(messages, pa.binary()), pa.array([], pa.string()), np.empty(0, np.int32))


class NestedOrders(Orders):
    """Orders of 1 KB."""

    name = "NESTED_ORDERS"
    make = staticmethod(make_nested)


KINDS: dict[str, type[Orders]] = {"orders": Orders, "nested": NestedOrders}


def publish(connection: Connection, topic: str, kind: str, records: int) -> float:
    """Publish so many messages; their mean size (bytes)."""
    ensure_topic(connection, topic, SOURCES)
    return publish_dataset(connection, topic, KINDS[kind](records)).size / records


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


def measure_readers(kind: str, repeats: int) -> list[list[str]]:
    """Rows of the table of readers: the CPU of reading the keys in this process."""
    rng = random.Random(1)
    bodies = [orjson.dumps(KINDS[kind].make(rng, number)) for number in range(ALONE)]
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
    return [[kind, name, f"{statistics.median(taken) / ALONE * 1e6:.2f}"] for name, taken in measured.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=[*KINDS])
    parser.add_argument("--records", type=int, default=6_000_000)
    parser.add_argument("--groupings", default="KEY,BOUNDED_LOAD")
    parser.add_argument("--max-tuples", type=int, default=1_000_000, help="messages a batch, of all contestants")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    groupings = given.groupings.split(",")
    if given.records < 2 * given.max_tuples:
        parser.error(f"--records is {given.records:,}; valid: two batches of {given.max_tuples:,}, or more")
    table = make_table("", "bytes", "", "messages/s", "× from_json", "CPU s a million", left=1)
    readers = make_table("", "", "CPU s a million", left=2)
    for kind in given.kinds:
        for row in measure_readers(kind, given.repeats):
            readers.add_row(*row)
    with open_bench() as bench:
        sizes = {kind: publish(bench.connection, kind, kind, given.records) for kind in given.kinds}
        others = {"source_type": "COLUMN", "key_field": "user.id", "max_tuples": given.max_tuples}
        with open_session(bench.settings(groupings[0], "first", **others), groupings) as spark:
            for kind in given.kinds:

                def run(name: str, repeat: int, kind: str = kind) -> RunCost:
                    grouping = name if name in groupings else groupings[0]
                    chosen = bench.settings(grouping, f"{kind}-{name}-{repeat}", topic=kind, **others)
                    return measure(spark, name, chosen, given.records)

                contestants = {name: partial(run, name) for name in [*groupings, *NATIVE]}
                measured = in_turns(contestants, given.repeats, lambda one: f"{one.rate:,.0f} messages/s")
                base = statistics.median(one.rate for one in measured["groupBy, from_json"])
                for name, runs in measured.items():
                    median = statistics.median(one.rate for one in runs)
                    spent = statistics.median(sum(one.cpu.values()) for one in runs)
                    cells = (f"{median:,.0f}", f"{median / base:.2f}", f"{spent / given.records * 1e6:.2f}")
                    table.add_row(kind, f"{sizes[kind]:.0f}", name, *cells)
    print_table(readers)
    print_table(table)


if __name__ == "__main__":
    main()
