"""Messages per second that reach the router as keys, by how their JSON is spelled, beside from_json and no reading.

    python -m benchmarks.splitter [--records N] [--repeats N]

Country messages in a topic for each spelling; each contestant is a batch query over the whole topic, up to where a
router in Python has the keys, and they alternate.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from benchmarks.native import FIELDS, parsed
from benchmarks.processes import spent
from benchmarks.topology import SOURCES, TYPE, settings
from unskew.apps.run.session import session
from unskew.apps.topology.fields import MESSAGE, Fields
from unskew.apps.topology.source import FETCH
from unskew.deploy.client.connection import Connection
from unskew.deploy.client.topics import ensure_topic
from unskew.deploy.servers.broker import Broker
from unskew.producers.registry import create

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


def filled(connection: Connection, records: int) -> dict[str, str]:
    """Spelling → its topic."""
    topics = {name: f"spelling-{number}" for number, name in enumerate(SPELLINGS)}
    producer = Producer(connection.client(**{"linger.ms": 50, "queue.buffering.max.messages": 1_000_000}))
    for name, topic in topics.items():
        ensure_topic(connection, topic, SOURCES)
        number = 0
        for block in create(TYPE, records=records).blocks():
            for key in block.keys.to_pylist():
                producer.produce(topic, SPELLINGS[name].format(key, number).encode(), partition=number % SOURCES)
                number += 1
            producer.flush()
    return topics


def contestants(spark: SparkSession, connection: Connection, topic: str) -> dict[str, Callable[[], DataFrame]]:
    """Name → its query over the topic."""
    reader = spark.read.format("kafka").options(**FETCH).options(**connection.spark()).option("subscribe", topic)
    fields, value, field = Fields((FIELDS[TYPE],)), F.col("value"), FIELDS[TYPE]
    return {
        "source alone": lambda: reader.load().select("value").mapInArrow(_received(), "keys long"),
        "splitter": lambda: reader.load().select(value.alias(MESSAGE)).mapInArrow(_received(fields), "keys long"),
        "from_json": lambda: reader.load().select(parsed(value, field)).mapInArrow(_received(), "keys long"),
    }


def _received(fields: Fields | None = None) -> Any:
    """How many keys (or what comes in their place) there are: a function for ``mapInArrow``."""

    def received(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            keys = (fields(batch) if fields else batch).column(0)
            yield pa.record_batch([pa.array([len(keys) - keys.null_count])], ["keys"])

    return received


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000, help="of each spelling (default: 2 million)")
    parser.add_argument("--repeats", type=int, default=5, help="beside a first one that isn't counted (default: 5)")
    arguments = parser.parse_args()
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "kafka") as broker:
        connection = Connection(broker.bootstrap_servers)
        topics = filled(connection, arguments.records)
        with session(settings(connection, "KEY", Path(folder) / "none")) as spark:
            for repeat in range(arguments.repeats + 1):
                for spelling, topic in topics.items():
                    for name, query in contestants(spark, connection, topic).items():
                        before, begun = spent(), time.monotonic()
                        keys = sum(row["keys"] for row in query().collect())
                        taken = time.monotonic() - begun, spent() - before
                        assert keys == arguments.records, (spelling, name, keys)
                        if repeat:
                            found.setdefault((spelling, name), []).append(taken)
                print(f"repeat {repeat} of {arguments.repeats} is done", flush=True)
    _print(arguments.records, found)


def _print(records: int, found: Mapping[tuple[str, str], list[tuple[float, float]]]) -> None:
    """Rates and CPU, with the splitter's by the producers' own spelling as the measure."""
    medians = {each: tuple(map(statistics.median, zip(*values, strict=True))) for each, values in found.items()}
    base = medians[next(iter(SPELLINGS)), "splitter"]
    table = Table("spelling", "", box=MARKDOWN, title=f"{records:,} messages, from Kafka, {SOURCES} partitions")
    for column in ("messages/s", "× our spelling", "× from_json", "CPU µs a message", "÷ our spelling"):
        table.add_column(column, justify="right")
    for (spelling, name), (wall, busy) in medians.items():
        theirs = medians[spelling, "from_json"][0]
        rates = f"{records / wall:,.0f}", f"{base[0] / wall:.2f}", f"{theirs / wall:.2f}"
        table.add_row(spelling, name, *rates, f"{1e6 * busy / records:.2f}", f"{busy / base[1]:.2f}")
    Console(width=140, highlight=False).print(table)


if __name__ == "__main__":
    main()
