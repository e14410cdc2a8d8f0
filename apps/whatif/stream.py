"""The stream to simulate: a generator, a dataset, a column of a file, or a Kafka topic."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.deploy.client.connection import Connection
from unskew.errors import UsageError
from unskew.grouping import streams
from unskew.grouping.streams import KeyStream

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
        When each was recorded, ms, ascending; None where nothing says.

    """

    keys: pa.Array | pa.ChunkedArray | NDArray[Any]
    times: NDArray[np.int64] | None = None


def read(spec: str, tuples: int, seed: int, connect: Callable[[], Connection]) -> Stream:
    """The first ``tuples`` keys of the stream that ``spec`` names (see ``FORMS``).

    Raises
    ------
    UsageError
        The specification names nothing that there is.

    """
    from unskew.producers.registry import DATASETS

    name, _, rest = spec.partition(":")
    if name in GENERATORS:
        return Stream(generator(name, rest).take(0, tuples, seed=seed))
    if name.upper() in DATASETS:
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
    """A generator with the parameters ``z=1.2,k=1000``.

    Raises
    ------
    UsageError
        No such parameter, or a bad value.

    """
    make = GENERATORS[name]
    defaults = {p.name: p.default for p in inspect.signature(make).parameters.values()}
    options: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        parameter, _, value = part.partition("=")
        if parameter not in defaults:
            raise UsageError(f"{name} has no parameter {parameter!r}; valid: {', '.join(defaults)}")
        try:
            number = float(value)
            options[parameter] = (
                int(number) if isinstance(defaults[parameter], int) and number == int(number) else number
            )
        except ValueError:
            raise UsageError(f"{parameter} is {value!r}; valid: a number like {defaults[parameter]!r}") from None
    try:
        return make(**options)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{name}: {error}") from None


def _dataset(name: str, tuples: int, seed: int) -> Stream:
    from unskew.producers.registry import create

    parts: list[pa.Array] = []
    missing = tuples
    for block in create(name, records=tuples, seed=seed).blocks():
        parts.append(block.keys[:missing])
        missing -= len(parts[-1])
        if missing <= 0:
            break
    return Stream(pa.concat_arrays([_plain(part) for part in parts]) if parts else pa.array([], pa.string()))


def _plain(keys: pa.Array) -> pa.Array:
    return keys.dictionary_decode() if isinstance(keys, pa.DictionaryArray) else keys


def _column(path: Path, column: str, tuples: int) -> Stream:
    """A column of a Parquet or CSV file, and its column ``time`` (ms or a timestamp) if it has one."""
    import pyarrow.dataset as ds

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
    """Keys in random order, as often as a CSV says, or if that's more than ``tuples`` drawn by these frequencies."""
    import pyarrow.csv as pv

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
    from unskew.apps.whatif.topic import records

    topic, _, field = name.partition(":")
    if not topic:
        raise UsageError("stream is 'kafka:'; valid: kafka:TOPIC or kafka:TOPIC:FIELD")
    keys, times = records(topic, field or None, tuples, connection)
    return Stream(keys, times)
