"""The stream to simulate: a generator, a dataset, a column of a file, or the present contents of a Kafka topic."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Message
from numpy.typing import NDArray

from unskew.apps.splitter.json_fields import JsonFields
from unskew.errors import UsageError
from unskew.grouping import streams
from unskew.grouping.streams import CHUNK, KeyStream
from unskew.kafka.connection import Connection
from unskew.kafka.reader import TopicReader
from unskew.kafka.topics import end_offsets, first_offsets
from unskew.producers.datasets import registry
from unskew.producers.readers.columns import KeyedRows, RejectRow, read_keys
from unskew.producers.readers.inputs import Input
from unskew.producers.readers.rejected_records import RejectedRecord, RejectLog
from unskew.shell import parse_pair, parse_value

#: The generators that a stream may name.
GENERATORS: dict[str, Callable[..., KeyStream]] = {
    make.__name__: make
    for make in (streams.zipf, streams.uniform, streams.hot, streams.matched, streams.lognormal, streams.drifting)
}
_NAMED = {*GENERATORS, "kafka", "counts"}  # what a stream of another kind than a dataset or a file begins with
FORMS = (
    "zipf:z=1.2,k=100000 (or another generator: " + ", ".join(GENERATORS) + "), a dataset such as COUNTRY_SKEW_R80, "
    "FILE:COLUMN (Parquet, CSV, TSV or JSON lines), counts:FILE.csv (columns key,count: how often each key comes), "
    "kafka:TOPIC (by message key) or kafka:TOPIC:FIELD (of JSON)"
)

_MOST_COUNTED = 2**62  # by a histogram, whose sum is an int64


@dataclass(frozen=True, slots=True)
class TimedKeys:
    """n keys in order.

    Attributes
    ----------
    keys : Arrow or NumPy array [n]
    times : int64[n] or None
        The recorded time of each key (ms), ascending. None: the stream has no times.

    """

    keys: pa.Array | pa.ChunkedArray | NDArray[Any]
    times: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class StreamSpec:
    """A stream by its name."""

    spec: str  #: Its name (see ``FORMS``).
    tuples: int  #: The most tuples that are taken of it.
    seed: int  #: The seed of what is drawn.
    connect: Callable[[], Connection]  #: () → Connection: Connects to Kafka. It is called only for a topic.
    #: Whether the times of a file's rows are read from its column ``time``, if it has one. Rows without are rejected.
    timed: bool = True
    #: Takes the rows of a file that have no key, once, however often the file is read.
    rejects: RejectLog = field(default_factory=RejectLog, compare=False)
    _rejected: set[int] = field(default_factory=set, compare=False, repr=False)

    @property
    def file(self) -> Path | None:
        """The file that it is a column of. None: it isn't."""
        path = Path(self.spec.rpartition(":")[0])
        return path if self.spec.partition(":")[0] not in _NAMED and path.is_file() else None

    @property
    def topic(self) -> str | None:
        """The topic that it comes from. None: it doesn't."""
        name, _, rest = self.spec.partition(":")
        return _split_topic(rest)[0] if name == "kafka" else None

    @property
    def field(self) -> str | None:
        """The field of a topic's messages that is the key. None: the Kafka key is."""
        return _split_topic(self.spec.partition(":")[2])[1]

    def read(self) -> TimedKeys:
        """The first ``tuples`` keys of the stream.

        Raises ``UsageError`` if no stream has that name, or it can't be read.
        """
        name, _, rest = self.spec.partition(":")
        if name in GENERATORS:
            return TimedKeys(make_generator(name, rest).take(0, self.tuples, seed=self.seed))
        if _is_dataset(self.spec):
            return TimedKeys(next(self.blocks(self.tuples), pa.array([], pa.string())))
        if self.topic is not None:
            return read_with_columns(self.topic, self.field, self.tuples, self.connect(), {})[0]
        if name == "counts":
            return _read_histogram(Path(rest), self.tuples, self.seed, self._reject)
        if self.file is not None:
            return _read_column(self.rows(), self.tuples)
        raise UsageError(f"stream is {self.spec!r}; valid: {FORMS}")

    def read_some(self, *, recorded: bool) -> TimedKeys:
        """The whole stream, as ``read``. ``recorded``: its times are needed.

        Raises ``UsageError`` if it has no tuples, or no times that are needed; or as ``read``.
        """
        read = self.read()
        if not len(read.keys):
            why = "".join(f": {reason}" for reason, _ in self.rejects.reasons.most_common(1))
            raise UsageError(f"stream {self.spec!r} has no tuples{why}")
        if recorded and read.times is None:
            raise UsageError(
                f"--recorded: stream {self.spec!r} says no times; a column 'time' (ms) or a Kafka topic does"
            )
        return read

    def rows(self, *columns: str) -> Iterator[KeyedRows]:
        """The rows of a file that have a key, with further columns, some at a time.

        Raises ``UsageError`` if the file has no such column.
        """
        column = self.spec.rpartition(":")[2]
        time = "time" if self.timed and column != "time" else ""
        # As `unskew produce COLUMN` reads them, with the times of a column ``time`` if there is one.
        return read_keys(Input(str(self.file), None), column, self._reject, time, columns, optional=True)

    def _reject(self, row: int, reason: str, data: bytes) -> None:
        if row not in self._rejected:
            self._rejected.add(row)
            self.rejects.add(RejectedRecord(str(self.file or self.spec.partition(":")[2]), row, reason, data))

    def partitions(self) -> dict[int, int] | None:
        """Kafka partition → the number of its messages, read or not. None: the stream isn't a topic's."""
        if self.topic is None:
            return None
        connection = self.connect()
        first, ends = first_offsets(connection, self.topic), end_offsets(connection, self.topic)
        return {partition: end - first[partition] for partition, end in ends.items()}

    def blocks(self, size: int) -> Iterator[pa.Array]:
        """The keys that ``read`` gives, ``size`` at a time; the last block may have fewer.

        Generators, datasets and files are read bit by bit. A topic and a histogram are read whole: a topic's messages
        come in the order of their times, a histogram's keys in a random one.

        Raises ``UsageError`` if no stream has that name.
        """
        name, _, rest = self.spec.partition(":")
        if name in GENERATORS:
            drawn, most = make_generator(name, rest), self.tuples
            parts = (pa.array(drawn.take(at, min(at + CHUNK, most), self.seed)) for at in range(0, most, CHUNK))
        elif _is_dataset(self.spec):
            drawn = registry.create_dataset(name, records=self.tuples, seed=self.seed)
            parts = (_decode_keys(block.keys) for block in drawn.blocks())
        elif self.file is not None:
            parts = (part.keys for part in self.rows())
        else:
            keys: Any = self.read().keys
            parts = iter(keys.chunks if isinstance(keys, pa.ChunkedArray) else [pa.array(keys)])
        return _cut_blocks(parts, size, self.tuples)


def _cut_blocks(parts: Iterable[pa.Array], size: int, most: int) -> Iterator[pa.Array]:
    """The first ``most`` keys of these parts, in blocks of a size."""
    held: list[pa.Array] = []
    missing = size = min(size, most)
    for part in parts:
        at = 0
        while missing and at < len(part):
            held.append(part.slice(at, missing))
            at += len(held[-1])
            missing -= len(held[-1])
            if not missing:
                yield pa.concat_arrays(held)
                most -= size
                held, missing = [], min(size, most)
                size = missing
        if not missing:
            return
    if held:
        yield pa.concat_arrays(held)


def _is_dataset(spec: str) -> bool:
    """Whether a dataset has this name. Unlike a generator, it has no parameters.

    Raises ``UsageError`` if it is given some.
    """
    name, _, rest = spec.partition(":")
    if name.upper() not in registry.DATASETS:
        return False
    if rest:
        raise UsageError(f"stream is {spec!r}; valid: {name}, as a dataset has no parameters")
    return True


def make_generator(name: str, text: str) -> KeyStream:
    """A generator with parameters such as ``z=1.2,k=1000``.

    Raises ``UsageError`` if the generator has no such parameter, or the value is invalid.
    """
    make = GENERATORS[name]
    defaults = {p.name: p.default for p in inspect.signature(make).parameters.values()}
    options: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        parameter, written = parse_pair(part)
        if parameter not in defaults:
            raise UsageError(f"{name} has no parameter {parameter!r}; valid: {', '.join(defaults)}")
        read = _parse_number if isinstance(defaults[parameter], int) else float
        options[parameter] = parse_value(parameter, written, read, f"a number like {defaults[parameter]!r}")
    try:
        return make(**options)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{name}: {error}") from None


def _parse_number(text: str) -> float:
    """A number, as an int if it is whole."""
    number = float(text)
    return int(number) if number.is_integer() else number


def _decode_keys(keys: pa.Array) -> pa.Array:
    return keys.dictionary_decode() if isinstance(keys, pa.DictionaryArray) else keys


def _read_column(rows: Iterator[KeyedRows], tuples: int) -> TimedKeys:
    """A column of a file, and its column ``time`` if it has one."""
    parts = list(take_rows(rows, tuples))
    keys = pa.chunked_array([part.keys for part in parts], pa.string())
    times = [part.times for part in parts if part.times is not None]
    return TimedKeys(keys, np.maximum.accumulate(np.concatenate(times)) if times else None)


def take_rows(parts: Iterable[KeyedRows], most: int) -> Iterator[KeyedRows]:
    """The first ``most`` of these rows."""
    for part in parts:
        yield part.head(most)
        most -= len(part.keys)
        if most <= 0:
            return


def _read_histogram(path: Path, tuples: int, seed: int, reject: RejectRow) -> TimedKeys:
    """Keys in random order, as often as a CSV counts them; if that's more than ``tuples``, drawn by these counts."""
    if not path.is_file():
        raise UsageError(f"counts:{path} is no file; valid: counts:FILE.csv with the columns key,count")
    parts = list(read_keys(Input(str(path), None), "key", reject, others=["count"]))
    keys = pa.chunked_array([part.keys for part in parts], pa.string())
    try:
        listed = pa.chunked_array([pc.cast(part.others["count"], pa.int64()) for part in parts], pa.int64())
    except pa.ArrowInvalid:
        listed = pa.chunked_array([[None]], pa.int64())
    counts = listed.fill_null(-1).to_numpy()
    if counts.min(initial=0) < 0:
        raise UsageError(f"{path}: not every count is a whole number of at least 0")
    if counts.sum(dtype=np.float64) >= _MOST_COUNTED:
        raise UsageError(f"{path}: the counts' sum is {counts.sum(dtype=np.float64):.3g}; valid: less than 2^62")
    draws = np.random.default_rng(seed)
    if counts.sum() <= tuples:
        codes = draws.permutation(np.repeat(np.arange(len(counts)), counts))
    else:
        codes = np.searchsorted(np.cumsum(counts), draws.integers(0, counts.sum(), tuples), side="right")
    return TimedKeys(keys.take(pa.array(codes)))


def _split_topic(name: str) -> tuple[str, str | None]:
    """The topic and the field of ``TOPIC`` or ``TOPIC:FIELD``."""
    topic, _, field = name.partition(":")
    if not topic:
        raise UsageError("stream is 'kafka:'; valid: kafka:TOPIC or kafka:TOPIC:FIELD")
    return topic, field or None


def read_with_columns(
    topic: str, field: str | None, tuples: int, connection: Connection, columns: Mapping[str, Callable[[Message], Any]]
) -> tuple[TimedKeys, dict[str, pa.Array]]:
    """At most ``tuples`` keys of a topic, in the order of their timestamps, and columns of the same messages.

    The key is a field of the JSON message, whose dots lead to nested objects, as for the topology's source type COLUMN:
    a message that the topology would reject has the key null. Without ``field`` it is the Kafka key. Each column's
    function gives its value of a message.

    Raises ``UsageError`` if Kafka has no such topic, or none of its messages has that field; ``EnvironmentFault`` if
    Kafka doesn't answer.
    """
    read = None if field is None else JsonFields.column(field).read
    keys: list[Any] = []
    times: list[int] = []
    beside: dict[str, list[Any]] = {column: [] for column in columns}
    with TopicReader(connection, topic) as reader:
        wanted = islice(reader.to_end(), tuples)
        while messages := list(islice(wanted, CHUNK)):
            times += [message.timestamp()[1] for message in messages]
            found = [message.key() if read is None else message.value() for message in messages]
            keys += found if read is None else read(pa.array(found, pa.binary()))[0].to_pylist()
            for column, of in columns.items():
                beside[column] += map(of, messages)
    if keys and all(key is None for key in keys):
        missing = f"field {field!r}" if field else "key; name a field of the JSON messages: kafka:TOPIC:FIELD"
        raise UsageError(f"no message of topic {topic!r} has a {missing}")
    stamps = np.array(times, np.int64)
    order = np.argsort(stamps, kind="stable")
    taken = pa.array(order)
    stream = TimedKeys(pa.array(keys).take(taken), stamps[order])
    return stream, {column: pa.array(values).take(taken) for column, values in beside.items()}
