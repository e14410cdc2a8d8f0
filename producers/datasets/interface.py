"""The interface of datasets: a dataset is a named stream of Kafka messages, cut into blocks.

A generator or a reader of files is one class, and ``registry.py`` lists them. Beside the bytes that are sent, a block
carries the keys that the splitter will find in them. The summary counts these keys, and a grouping that chooses the
partition routes by them.

``GeneratedDataset`` and ``ScaledDataset`` are bases of the generators. ``RepeatedDataset`` sends another dataset's
records several times, and ``DatasetTail`` only those from a moment on.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.errors import UsageError
from unskew.grouping.arguments import check_integer

if TYPE_CHECKING:
    from unskew.producers.readers.files import Format


@dataclass(frozen=True, slots=True)
class Block:
    """n consecutive messages."""

    #: pyarrow binary[n], or a dictionary of binary: The payloads in order. A dictionary means that few distinct
    #: payloads repeat: each becomes one bytes object.
    messages: pa.Array
    keys: pa.Array  #: pyarrow string[m], or a dictionary of string: The keys in the messages, in order.
    #: int32[m] or None: The index in the block of each key's message, ascending. None: one key a message.
    owners: NDArray[np.int32] | None = None
    counts: NDArray[np.int64] | None = None  #: int64[m] or None: What each key adds to its count. None: 1.
    #: int64[n] or None: The time of each message's event, ms since the epoch, for a replay at the records' own times.
    times: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Bytes of each message, int64[n]."""
        if isinstance(self.messages, pa.DictionaryArray):
            distinct = pc.call_function("binary_length", [self.messages.dictionary]).to_numpy()
            return distinct.astype(np.int64)[self.messages.indices.to_numpy()]
        return pc.call_function("binary_length", [self.messages]).to_numpy().astype(np.int64)

    def slice(self, start: int, stop: int) -> "Block":
        """The messages [start, stop) of this block, with their keys."""
        first, last = start, stop
        owners = self.owners
        if owners is not None:
            first, last = (int(at) for at in np.searchsorted(owners, (start, stop)))
            owners = owners[first:last] - np.int32(start)
        return Block(
            self.messages.slice(start, stop - start),
            self.keys.slice(first, last - first),
            owners,
            None if self.counts is None else self.counts[first:last],
            None if self.times is None else self.times[start:stop],
        )

    def only(self, messages: NDArray[np.bool_]) -> "Block":
        """The messages with a true entry in ``messages``, bool[n], and their keys."""
        keys = messages if self.owners is None else messages[self.owners]
        owners = None
        if self.owners is not None:
            owners = (np.cumsum(messages, dtype=np.int32) - 1)[self.owners[keys]]
        return Block(
            self.messages.filter(pa.array(messages)),
            self.keys.filter(pa.array(keys)),
            owners,
            None if self.counts is None else self.counts[keys],
            None if self.times is None else self.times[messages],
        )

    def first_keys(self) -> pa.Array:
        """The first key of each message, string[n] or a dictionary of it. Null if the message has no key."""
        if self.owners is None:
            return self.keys
        first = np.searchsorted(self.owners, np.arange(len(self)))
        has_key = np.bincount(self.owners, minlength=len(self)) > 0
        return self.keys.take(pa.array(first, mask=~has_key))

    def take(self, codes: NDArray[np.int32]) -> "Block":
        """A block of n messages, in which message i is this block's message ``codes[i]``: int32[n].

        This block must have one key in each message, and neither counts nor times.
        """
        indices = pa.array(codes, pa.int32())
        return Block(
            pa.DictionaryArray.from_arrays(indices, self.messages), pa.DictionaryArray.from_arrays(indices, self.keys)
        )


@dataclass(frozen=True, slots=True)
class KeyField:
    """The field of a dataset's JSON messages in which the topology finds the key."""

    path: tuple[str, ...]  #: The names of the fields from the outermost object down to the key.
    count: str | None = None  #: The field of what the key adds to its count. None: 1.
    rule: Callable[[pa.Array], pa.Array] | None = None  #: Makes keys of the field's values (strings).
    scalars: bool = False  #: Whether numbers are keys, too.
    optional: bool = False  #: Whether the outermost field may be null. Such a message has no key.
    #: Whether the field is a list of hashtags, each of which is a key (``unskew.producers.messages``).
    several: bool = False


@dataclass(frozen=True, slots=True)
class PublishedStatistics:
    """The published statistics of the stream that a dataset stands for. None: not published."""

    source: str  #: Who published them.
    records: int | None = None  #: How many records and keys there are.
    keys: int | None = None
    p1: float | None = None  #: The share of the most frequent key in the tuples.


class Dataset(ABC):
    """A stream of messages that is the same each time it is read.

    Guarantee: a record depends only on its position and on the dataset's parameters, such as its seed or its files. It
    never depends on where reading began or how the stream was cut into blocks. So an interrupted upload can go on
    exactly where it stopped.

    """

    name: str  #: The source type, as users and the topology write it.
    summary: str  #: One line for ``unskew produce --list``.
    key: KeyField = KeyField(("key",))  #: Where the key of a message is.
    #: The format of a file of such records, by the file's first line. None: they aren't read from files.
    choose_format: "ClassVar[Callable[[bytes], Format] | None]" = None
    records: int | None = None  #: How many records there are. None: unknown before the end.
    published: PublishedStatistics | None = None  #: The published statistics to compare it with, at its scale.

    @abstractmethod
    def blocks(self, start: int = 0) -> Iterator[Block]:
        """The records from position ``start`` to the end, in blocks of at most a few 10,000, in bounded memory."""

    def identity(self) -> dict[str, Any] | None:
        """A value for JSON that identifies the stream. None: the stream can't be read a second time."""
        return None

    def position(self) -> dict[str, Any] | None:
        """How far the blocks given out so far reach, as a value for JSON. ``"position"`` is the number of records.

        None: the dataset finds any position at once, and needs no ``recall``.
        """
        return None

    def recall(self, position: Mapping[str, Any]) -> None:
        """Take a ``position`` of an earlier reading. Later calls of ``blocks`` use it to skip what is before it."""
        raise TypeError(f"{self.name} recalls no positions, so {position} is not one of them")

    def progress(self) -> float | None:
        """The share that has been read, 0 to 1. None: the number of records measures it."""
        return None


class GeneratedDataset(Dataset):
    """A dataset of so many records, drawn from a seed (at least 0), chunk by chunk.

    Every chunk has its own random stream, which is derived from the seed and the chunk's number. So the records from
    any position on can be drawn without those before it.
    """

    chunk: ClassVar[int] = 1 << 16

    def __init__(self, records: int, seed: int = 0) -> None:
        self.records = check_integer("records", records, 0)
        self.seed = check_integer("seed", seed, 0, held=None)

    def blocks(self, start: int = 0) -> Iterator[Block]:
        records = self.records or 0
        for number in range(start // self.chunk, -(-records // self.chunk)):
            first = number * self.chunk
            block = self._draw(np.random.default_rng((self.seed, number)), first)
            low, high = max(start - first, 0), min(records - first, self.chunk)
            yield block if high - low == self.chunk else block.slice(low, high)

    def identity(self) -> dict[str, Any]:
        return {"dataset": self.name, "summary": self.summary, "records": self.records, "seed": self.seed}

    @abstractmethod
    def _draw(self, rng: np.random.Generator, first: int) -> Block:
        """The whole chunk that begins at position ``first``, even where ``records`` ends within it."""


class ScaledDataset(GeneratedDataset):
    """A generated dataset whose sizes are published.

    ``scale`` is the number of records and keys, as a multiple of the published ones: 0.000001 to 10. If ``records`` is
    given, the number of distinct keys doesn't depend on it.
    """

    def __init__(self, published: int, scale: float, records: int | None, seed: int) -> None:
        super().__init__(scale_size(published, scale) if records is None else records, seed)
        self._scale = scale

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "scale": self._scale}


def scale_size(size: int, scale: float) -> int:
    """``size`` times ``scale``, at least 2. Raises ``ValueError`` if ``scale`` is not from a millionth to 10."""
    if not 1e-6 <= scale <= 10:
        raise ValueError(f"scale is {scale!r}; valid: 0.000001 to 10")
    return max(2, round(size * scale))


class RepeatedDataset(Dataset):
    """A dataset with an end that is sent several times or without end (``times`` is None), from the first record to the
    last.

    The messages are the same each time. The blocks' times go on: each turn begins at the time at which the last one
    ended, so that a replay keeps its pace.
    """

    def __init__(self, dataset: Dataset, times: int | None = None) -> None:
        if dataset.records == 0:
            raise ValueError(f"{dataset.name} has no records to repeat")
        if times is not None and times < 1:
            raise ValueError(f"repeat is {times}; valid: at least 1")
        self._dataset = dataset
        self._times = times
        self.name = dataset.name
        self.summary = dataset.summary
        self._turn = 0
        self.published = dataset.published if times == 1 else None
        self.records = None if times is None or dataset.records is None else times * dataset.records

    def identity(self) -> dict[str, Any] | None:
        identity = self._dataset.identity()
        return identity and {**identity, "times": self._times}

    def progress(self) -> float | None:
        share = self._dataset.progress()
        return None if share is None or self._times is None else (self._turn + share) / self._times

    def blocks(self, start: int = 0) -> Iterator[Block]:
        length = self._dataset.records
        done, skip = divmod(start, length) if length else (0, start)
        latest: int | None = None  # the end of the turns so far
        for turn in count(done) if self._times is None else range(done, self._times):
            self._turn, records = turn, 0
            begin, later = latest, None  # what is added to the turn's times
            for block in self._dataset.blocks(skip if length else 0):
                records += len(block)
                first = 0 if length else min(skip, len(block))
                skip -= first
                if first == len(block):
                    continue
                part = block.slice(first, len(block)) if first else block
                if (times := part.times) is not None:
                    if later is None:
                        later = 0 if begin is None else begin - int(times[0])
                    if later:
                        times = times + later
                        part = replace(part, times=times)
                    end = int(times.max())
                    latest = end if latest is None else max(latest, end)
                yield part
            if not records:
                return  # the files have no records, and would have none the next time
            skip = 0 if length else skip


class DatasetTail(Dataset):
    """The records of a moment (ms since the epoch) and later. Earlier ones are left out, wherever they stand."""

    def __init__(self, dataset: Dataset, begin: int) -> None:
        self._dataset = dataset
        self._begin = begin
        self.name = dataset.name
        self.summary = dataset.summary

    def blocks(self, start: int = 0) -> Iterator[Block]:
        for block in self._dataset.blocks():
            if block.times is None:
                raise UsageError(f"{self.name} has no times: --since can't be used with it")
            later = block.times >= self._begin
            kept = int(later.sum())
            if kept > start:
                part = block.only(later) if kept < len(block) else block
                yield part.slice(start, kept) if start else part
            start = max(start - kept, 0)

    def identity(self) -> dict[str, Any] | None:
        identity = self._dataset.identity()
        return identity and {**identity, "since": self._begin}

    def progress(self) -> float | None:
        return self._dataset.progress()


def parse_moment(text: str) -> int:
    """A moment in ms since the epoch, from a text with seconds or ISO 8601 (UTC if it names no time zone).

    Examples
    --------
    >>> parse_moment("1383264000"), parse_moment("2013-11-01"), parse_moment("2013-11-01T02:00+02:00")
    (1383264000000, 1383264000000, 1383264000000)

    Raises
    ------
    ValueError
        The text is neither.

    """
    if text.isdecimal():
        return int(text) * 1000
    try:
        return parse_iso_time(text)
    except ValueError:
        raise ValueError(f"{text!r} is no moment; valid: seconds since 1970, or 2013-11-01T12:30") from None


def parse_iso_time(text: str) -> int:
    """A moment in ms since the epoch, from ISO 8601 (UTC if it names no time zone). Raises ValueError if it isn't."""
    found = datetime.fromisoformat(text)
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
