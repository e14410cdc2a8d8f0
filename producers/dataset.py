"""What a dataset is: a named stream of Kafka messages, cut into blocks.

A generator or a reader of files is one class; ``registry.py`` lists them. A block carries, beside the bytes that are
sent, the keys that the splitter will find in them: for the summary's statistics, and for a producer that lets a
grouping choose the partition.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Block:
    """n consecutive messages.

    Attributes
    ----------
    messages : pyarrow binary[n], or a dictionary of binary
        The payloads in order. A dictionary says that few distinct payloads repeat: each becomes one bytes object.
    keys : pyarrow string[m], or a dictionary of string
        The keys in the messages, in order.
    owners : int32[m] or None
        The message (its place in the block) that each key is in, ascending; None: one key a message.
    counts : int64[m] or None
        What each key adds to its count; None: 1.
    times : int64[n] or None
        When the message happened, ms since the epoch, for a replay by the records' own time.

    """

    messages: pa.Array
    keys: pa.Array
    owners: NDArray[np.int32] | None = None
    counts: NDArray[np.int64] | None = None
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
        """The messages for which it is true, bool[n], with their keys."""
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
        """The first key of each message, string[n] or a dictionary of it; null where there is none."""
        if self.owners is None:
            return self.keys
        first = np.searchsorted(self.owners, np.arange(len(self)))
        has_key = np.bincount(self.owners, minlength=len(self)) > 0
        return self.keys.take(pa.array(first, mask=~has_key))

    def drawn(self, codes: NDArray[np.int32]) -> "Block":
        """A block of n messages, each one of this block's: int32[n]. This block has a key a message and no more."""
        indices = pa.array(codes, pa.int32())
        return Block(
            pa.DictionaryArray.from_arrays(indices, self.messages), pa.DictionaryArray.from_arrays(indices, self.keys)
        )


@dataclass(frozen=True, slots=True)
class Published:
    """What is published about the stream that a dataset stands for; None where nothing is.

    Attributes
    ----------
    source : str
        Who says so.
    records, keys : int or None
        How many there are.
    p1 : float or None
        The share of the most frequent key in the tuples.

    """

    source: str
    records: int | None = None
    keys: int | None = None
    p1: float | None = None


class Dataset(ABC):
    """A stream of messages that comes out the same each time it is read.

    Guarantee: the record at a position depends on the dataset's parameters (its seed, its files) and the position
    alone, never on where reading began or how the stream was cut into blocks. So an interrupted load goes on
    exactly where it stopped.

    Attributes
    ----------
    name : str
        The source type, as users and the topology write it.
    summary : str
        One line for ``unskew produce --list``.
    records : int or None
        How many records there are; None: unknown before the end.
    published : Published or None
        The statistics to hold it against, at its scale.

    """

    name: str
    summary: str
    records: int | None = None
    published: Published | None = None

    @abstractmethod
    def blocks(self, start: int = 0) -> Iterator[Block]:
        """The records from position ``start`` to the end, in blocks of at most a few 10,000; memory stays bounded."""

    def identity(self) -> dict[str, Any] | None:
        """What says that it is the same stream, JSON-able; None: it can't be read a second time."""
        return None

    def place(self) -> dict[str, Any] | None:
        """Where reading is, for ``recall``: JSON-able, with its ``position``; None: any position is found at once."""
        return None

    def recall(self, place: Mapping[str, Any]) -> None:
        """Know this place from an earlier reading: a start behind it needn't read what is before it."""
        raise TypeError(f"{self.name} has no places to recall, so {place} is not one of them")

    def done(self) -> float | None:
        """The share that has been read, 0 to 1, if there is a better measure of it than the records; else None."""
        return None


class Generated(Dataset):
    """A dataset drawn from a seed, chunk by chunk.

    Every chunk has a random stream of its own, derived from the seed and the chunk's number, so that any position can
    be reached without drawing what is before it.

    Parameters
    ----------
    records : int
        How many records, at least 0.
    seed : int
        At least 0; the same seed gives the same records.

    """

    chunk: ClassVar[int] = 1 << 16

    def __init__(self, records: int, seed: int = 0) -> None:
        for what, value in (("records", records), ("seed", seed)):
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
                raise ValueError(f"{what} is {value!r}; valid: an integer of at least 0")
        self.records = int(records)
        self.seed = int(seed)

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
