"""The stream to simulate: a generator, a dataset, a column of a file, or the present contents of a Kafka topic."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.dataset as ds
from numpy.typing import NDArray

from unskew.deploy.kafka.connection import Connection
from unskew.deploy.kafka.reader import TopicReader
from unskew.deploy.kafka.topics import end_offsets, first_offsets
from unskew.errors import UsageError
from unskew.grouping import streams
from unskew.grouping.streams import KeyStream
from unskew.producers import registry
from unskew.shell import pair, value

#: The generators that a stream may name.
GENERATORS: dict[str, Callable[..., KeyStream]] = {
    make.__name__: make
    for make in (
        streams.zipf,
        streams.uniform,
        streams.hot,
        streams.matched,
        streams.lognormal,
        streams.drifting,
    )
}
FORMS = (
    "zipf:z=1.2,k=100000 (or another generator: " + ", ".join(GENERATORS) + "), a dataset such as COUNTRY_SKEW_R80, "
    "FILE.parquet:COLUMN, FILE.csv:COLUMN, counts:FILE.csv (columns key,count: how often each key comes), "
    "kafka:TOPIC (by message key) or kafka:TOPIC:FIELD (of JSON)"
)


@dataclass(frozen=True, slots=True)
class Stream:
    """n keys in order.

    Attributes
    ----------
    keys : Arrow or NumPy array [n]
    times : int64[n] or None
        The recorded time of each key (ms), ascending. None: the stream has no times.
    partitions : dict or None
        Kafka partition → the number of its offsets, that is of its messages. None: the stream isn't a topic's.

    """

    keys: pa.Array | pa.ChunkedArray | NDArray[Any]
    times: NDArray[np.int64] | None = None
    partitions: dict[int, int] | None = None


def read(spec: str, tuples: int, seed: int, connect: Callable[[], Connection]) -> Stream:
    """The first ``tuples`` keys of the stream that ``spec`` names (see ``FORMS``).

    Raises
    ------
    UsageError
        No stream has that name.

    """
    name, _, rest = spec.partition(":")
    if name in GENERATORS:
        return Stream(generator(name, rest).take(0, tuples, seed=seed))
    if name.upper() in registry.DATASETS:
        return _dataset(name, tuples, seed)
    if name == "kafka":
        return _topic(rest, tuples, connect())
    if name == "counts":
        return _histogram(Path(rest), tuples, seed)
    path, _, column = spec.rpartition(":")
    if Path(path).is_file():
        return _column(Path(path), column, tuples)
    raise UsageError(f"stream is {spec!r}; valid: {FORMS}")


def generator(name: str, text: str) -> KeyStream:
    """A generator with parameters such as ``z=1.2,k=1000``.

    Raises
    ------
    UsageError
        The generator has no such parameter, or the value is invalid.

    """
    make = GENERATORS[name]
    defaults = {p.name: p.default for p in inspect.signature(make).parameters.values()}
    options: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        parameter, written = pair(part)
        if parameter not in defaults:
            raise UsageError(f"{name} has no parameter {parameter!r}; valid: {', '.join(defaults)}")
        read = _whole if isinstance(defaults[parameter], int) else float
        options[parameter] = value(parameter, written, read, f"a number like {defaults[parameter]!r}")
    try:
        return make(**options)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{name}: {error}") from None


def _whole(text: str) -> float:
    """A number, as an int if it is whole."""
    number = float(text)
    return int(number) if number == int(number) else number


def _dataset(name: str, tuples: int, seed: int) -> Stream:
    parts: list[pa.Array] = []
    missing = tuples
    for block in registry.create(name, records=tuples, seed=seed).blocks():
        parts.append(block.keys[:missing])
        missing -= len(parts[-1])
        if missing <= 0:
            break
    return Stream(pa.concat_arrays([_plain(part) for part in parts]) if parts else pa.array([], pa.string()))


def _plain(keys: pa.Array) -> pa.Array:
    return keys.dictionary_decode() if isinstance(keys, pa.DictionaryArray) else keys


def _column(path: Path, column: str, tuples: int) -> Stream:
    """A column of a Parquet or CSV file, and its column ``time`` (ms or a timestamp) if it has one."""
    kind = "parquet" if path.suffix in (".parquet", ".pq") else "csv"
    data = ds.dataset(path, format=kind)
    if column not in data.schema.names:
        raise UsageError(f"{path} has no column {column!r}; valid: {', '.join(data.schema.names)}")
    times = ["time"] if "time" in data.schema.names and column != "time" else []
    table = data.head(tuples, columns=[column, *times])
    recorded = None
    if times:
        stamps = table["time"].cast(pa.timestamp("ms")) if pa.types.is_temporal(table["time"].type) else table["time"]
        recorded = np.maximum.accumulate(stamps.cast(pa.int64()).to_numpy())
    return Stream(table[column], recorded)


def _histogram(path: Path, tuples: int, seed: int) -> Stream:
    """Keys in random order, as often as a CSV counts them; if that's more than ``tuples``, drawn by these counts."""
    if not path.is_file():
        raise UsageError(f"counts:{path} is no file; valid: counts:FILE.csv with the columns key,count")
    table = pv.read_csv(path)
    if not {"key", "count"} <= set(table.column_names):
        raise UsageError(f"{path} has the columns {', '.join(table.column_names)}; valid: key,count")
    counts = table["count"].to_numpy()
    if not np.issubdtype(counts.dtype, np.integer) or counts.min(initial=0) < 0:
        raise UsageError(f"{path}: not every count is a whole number of at least 0")
    draws = np.random.default_rng(seed)
    if counts.sum() <= tuples:
        codes = draws.permutation(np.repeat(np.arange(len(counts)), counts))
    else:
        codes = np.searchsorted(np.cumsum(counts), draws.integers(0, counts.sum(), tuples), side="right")
    return Stream(table["key"].take(pa.array(codes)))


def _topic(name: str, tuples: int, connection: Connection) -> Stream:
    topic, _, field = name.partition(":")
    if not topic:
        raise UsageError("stream is 'kafka:'; valid: kafka:TOPIC or kafka:TOPIC:FIELD")
    return records(topic, field or None, tuples, connection)


def records(topic: str, field: str | None, tuples: int, connection: Connection) -> Stream:
    """At most ``tuples`` keys of a topic, in the order of their timestamps.

    The key is a field of the JSON message. Without ``field`` it is the Kafka key.

    Raises
    ------
    UsageError
        Kafka has no such topic, or none of its messages has that field.
    EnvironmentFault
        Kafka doesn't answer.

    """
    keys: list[Any] = []
    times: list[int] = []
    with TopicReader(connection, topic) as reader:
        for message in islice(reader.to_end(), tuples):
            keys.append(message.key() if field is None else _field(message.value(), field))
            times.append(message.timestamp()[1])
    if keys and all(key is None for key in keys):
        missing = f"field {field!r}" if field else "key; name a field of the JSON messages: kafka:TOPIC:FIELD"
        raise UsageError(f"no message of topic {topic!r} has a {missing}")
    stamps = np.array(times, np.int64)
    order = np.argsort(stamps, kind="stable")
    # Not of the messages that were read: a consumer may read one partition before the others.
    first, ends = first_offsets(connection, topic), end_offsets(connection, topic)
    partitions = {partition: end - first[partition] for partition, end in ends.items()}
    return Stream(pa.array(keys).take(pa.array(order)), stamps[order], partitions)


def _field(value: bytes | None, field: str) -> str | None:
    try:
        found = orjson.loads(value or b"null")
    except orjson.JSONDecodeError:
        return None
    key = found.get(field) if isinstance(found, dict) else None
    return None if key is None else str(key)
