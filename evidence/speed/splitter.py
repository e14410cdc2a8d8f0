"""Messages per second that reach the router as keys, by how their JSON is spelled; ours beside what one would try.

    python -m evidence.speed.splitter [--records N] [--repeats N]

Country messages are in a topic for each spelling. Each contestant is a batch query over the whole topic, up to where a
router in Python has the keys. How many keys a contestant gets wrong is counted on malformed messages.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.json
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.box import MARKDOWN
from rich.table import Table

from evidence.speed.measuring import SOURCES, TYPE, in_turns, open_bench
from evidence.speed.native import FIELDS, parsed
from evidence.speed.processes import spent
from evidence.tables import print_table
from tests.oracle.messages import FIELD, fuzzed, read
from unskew.apps.driver.session import open_session
from unskew.apps.splitter.json_fields import JsonFields
from unskew.apps.splitter.kafka_source import FETCH, set_portions
from unskew.kafka.connection import Connection
from unskew.kafka.topics import ensure_topic
from unskew.producers.datasets.registry import create_dataset

#: name → a message, of a country and a number
SPELLINGS: dict[str, str] = {
    "as our producers": '{{"country":"{0}"}}',
    "Python's": '{{"country": "{0}"}}',
    "a field more before": '{{"id": {1}, "country": "{0}"}}',
    "a field more after": '{{"country": "{0}", "id": {1}}}',
    "an escape": '{{"country": "{0} \\u00f4"}}',
    "six fields, nested": '{{"id": {1}, "at": {{"country": "{0}", "ip": "10.0.0.1"}}, "country": "{0}", "ok": true, '
    '"tags": ["a", "b"], "price": 12.5}}',
}
_MALFORMED = 20_000  # messages to count mistakes on

#: From n messages (binary) to their keys (string; null: none).
Reader = Callable[[pa.Array], pa.Array]


def by_orjson(messages: pa.Array) -> pa.Array:
    """The keys by orjson, a message at a time. Of a name that is there twice, the last counts."""
    keys: list[str | None] = []
    for message in messages.to_pylist():
        try:
            key = orjson.loads(message)[FIELD]
        except (TypeError, ValueError, LookupError):
            key = None
        keys.append(key if isinstance(key, str) else None)
    return pa.array(keys, pa.string())


def by_arrow(messages: pa.Array) -> pa.Array:
    """The keys by pyarrow.json, of all messages as lines of one buffer; by orjson if it refuses one of them.

    A line may be no value, or several: only the number of all values is checked.
    """
    lines = b"\n".join(message or b"" for message in messages.to_pylist()) + b"\n"
    at_once = pyarrow.json.ReadOptions(use_threads=False, block_size=len(lines))
    wanted = pyarrow.json.ParseOptions(pa.schema([(FIELD, pa.string())]), unexpected_field_behavior="ignore")
    try:
        keys = pyarrow.json.read_json(pa.BufferReader(lines), at_once, wanted).column(FIELD).combine_chunks()
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return by_orjson(messages)
    return keys if len(keys) == len(messages) else by_orjson(messages)


def ours(messages: pa.Array) -> pa.Array:
    """The keys as the splitter reads them."""
    return JsonFields((FIELD,)).read(messages)[0]


#: Name → how it reads.
READERS: dict[str, Reader] = {
    "splitter": ours,
    "orjson": by_orjson,
    "pyarrow.json": by_arrow,
}


def mistakes(reader: Reader, messages: Sequence[bytes | None]) -> int:
    """How many of these messages, read one by one, have another key than they should; all, if reading raises."""
    return sum(_key(reader, message) != read(message)[0] for message in messages)


def _key(reader: Reader, message: bytes | None) -> Any:
    try:
        return reader(pa.array([message], pa.binary())).to_pylist()[0]
    except Exception as error:  # noqa: BLE001  a mistake, whatever it is
        return error


def _mistakes(reader: Reader) -> str:
    """The mistakes on malformed messages, counted in a process of their own: a message may end it."""
    rng = random.Random(5)
    messages = [fuzzed(rng) for _ in range(_MALFORMED)]
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        try:
            return f"{pool.submit(mistakes, reader, messages).result():,} of {_MALFORMED:,}"
        except BrokenProcessPool:
            return "one ends the process"


def filled(connection: Connection, records: int) -> dict[str, str]:
    """Spelling → its topic."""
    topics = {name: f"spelling-{number}" for number, name in enumerate(SPELLINGS)}
    producer = Producer(connection.client(**{"linger.ms": 50, "queue.buffering.max.messages": 1_000_000}))
    for name, topic in topics.items():
        ensure_topic(connection, topic, SOURCES)
        number = 0
        for block in create_dataset(TYPE, records=records).blocks():
            for key in block.keys.to_pylist():
                producer.produce(topic, SPELLINGS[name].format(key, number).encode(), partition=number % SOURCES)
                number += 1
            producer.flush()
    return topics


def contestants(spark: SparkSession, connection: Connection, topic: str) -> dict[str, Callable[[], DataFrame]]:
    """Name → its query over the topic."""
    source = spark.read.format("kafka").options(**FETCH).options(**connection.spark()).option("subscribe", topic)
    value = F.col("value")

    def query(what: Any, reader: Reader | None = None) -> DataFrame:
        return source.load().select(what).mapInArrow(_received(reader), "keys long")

    return {
        "source alone": lambda: query(value),
        "from_json": lambda: query(parsed(value, FIELDS[TYPE])),
        **{name: partial(query, value, reader) for name, reader in READERS.items()},
    }


def _received(reader: Reader | None = None) -> Any:
    """How many keys (or what comes in their place) there are: a function for ``mapInArrow``."""

    def received(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            keys = reader(batch.column(0)) if reader else batch.column(0)
            yield pa.record_batch([pa.array([len(keys) - keys.null_count])], ["keys"])

    return received


def _run(query: Callable[[], DataFrame], records: int, _: int) -> tuple[float, float]:
    """Wall time and CPU time of a query (s)."""
    before, begun = spent(), time.monotonic()
    keys = sum(row["keys"] for row in query().collect())
    taken = time.monotonic() - begun, spent() - before
    assert keys == records, keys
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000, help="of each spelling (default: 2 million)")
    parser.add_argument("--repeats", type=int, default=5, help="beside a first one that isn't counted (default: 5)")
    arguments = parser.parse_args()
    for name, reader in READERS.items():
        print(f"wrong keys by {name}:", _mistakes(reader), flush=True)
    with open_bench() as bench:
        topics = filled(bench.connection, arguments.records)
        run = bench.settings("KEY", "none")
        with open_session(run) as spark:
            set_portions(spark, run, [b" " * 150])  # as many rows at a time as of a topic of such messages
            queries = {
                (spelling, name): partial(_run, query, arguments.records)
                for spelling, topic in topics.items()
                for name, query in contestants(spark, bench.connection, topic).items()
            }
            in_turns(queries, 1)
            found = in_turns(queries, arguments.repeats)
    _print(arguments.records, found)


def _print(records: int, found: Mapping[tuple[str, str], Sequence[tuple[float, float]]]) -> None:
    """Rates and CPU of each spelling."""
    table = Table("spelling", "", "messages/s", "CPU µs a message", box=MARKDOWN)
    for (spelling, name), taken in found.items():
        wall, busy = (statistics.median(values) for values in zip(*taken, strict=True))
        table.add_row(spelling, name, f"{records / wall:,.0f}", f"{1e6 * busy / records:.2f}")
    print_table(table)


if __name__ == "__main__":
    main()
