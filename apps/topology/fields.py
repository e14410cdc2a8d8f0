"""Fields of JSON messages, read in Python where the router is: Arrow arrays of messages in, of keys out.

All but the oddest messages are read by the compiled kernels of ``scan``.
"""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from unskew.apps.topology.scan import DIGITS, NONE, NUMBER, PLAIN, Found, Places, Wanted, gather, scan
from unskew.apps.topology.spelling import Bytes

#: The column of the messages that are to be read.
MESSAGE = "__message"
#: Bytes before a message's body in Confluent's framing: a zero, and the schema's number.
FRAME = 5
#: What a message may count at most: so many of them a window that no sum of int64 overflows have to come first.
MOST = 10**12
_PRECISION = 38  # digits of a decimal


@dataclass(frozen=True)
class Fields:
    """Where the key is in JSON messages, and the count; travels to the tasks.

    Parameters
    ----------
    path : tuple of str
        The names from the outermost object to the key, which is a text.
    number : str, optional
        A field of the outermost object: what the message counts, a whole number from 0 to ``MOST``.
    scalars : bool
        Whether numbers and truth values are keys, too.
    framed : bool
        Whether messages may have Confluent's framing.
    rule : Array → Array, optional
        From what the field says to the key (strings).

    """

    path: tuple[str, ...]
    number: str | None = None
    scalars: bool = False
    framed: bool = False
    rule: Callable[[pa.Array], pa.Array] | None = None

    @property
    def gives(self) -> tuple[str, ...]:
        """The columns that are read from the messages."""
        return ("key", "count") if self.number else ("key",)

    def read(self, messages: pa.Array) -> tuple[pa.Array, ...]:
        """Read n messages (binary): their keys (string; null: rejected), and their counts (int64) if they have any."""
        data, bounds = _buffers(messages)
        heads, tails = bounds[:-1], bounds[1:]
        if self.framed:
            heads = _bodies(data, heads, tails)
        n = len(messages)
        found = Found(np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int8), np.empty(n, np.int64))
        scan(data, heads, tails, self._wanted(), found)
        special = np.flatnonzero(found.kinds >= NUMBER)
        if len(special):
            data = self._special(special, data, heads, tails, found)
        if self.number:
            found.kinds[found.counts > MOST] = NONE
        keys = _texts(data, found)
        return (self.rule(keys) if self.rule else keys, *([pa.array(found.counts)] if self.number else []))

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch with what is read in place of the messages."""
        found = self.read(batch.column(MESSAGE))
        others = [name for name in batch.schema.names if name != MESSAGE]
        return pa.record_batch([*map(batch.column, others), *found], [*others, *self.gives])

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Every batch so (for ``DataFrame.mapInArrow``)."""
        yield from map(self, batches)

    def _wanted(self) -> Wanted:
        names = [name.encode() for name in (*self.path, *([self.number] if self.number else []))]
        limits = np.cumsum([0, *map(len, names)])
        return Wanted(np.frombuffer(b"".join(names), np.uint8), limits, len(self.path), self.scalars)

    def _special(self, which: Places, data: Bytes, heads: Places, tails: Places, found: Found) -> Bytes:
        """Read what the kernel can't; the keys are put behind the data, which are given back."""
        parts, size = [data], len(data)
        for i in which.tolist():
            if found.kinds[i] == NUMBER:
                key, count = written(data[found.begins[i] : found.ends[i]].tobytes().decode()), int(found.counts[i])
            else:
                key, count = self._odd(data[heads[i] : tails[i]].tobytes().decode())
            encoded = (key or "").encode()
            found.begins[i], found.ends[i], found.counts[i] = size, size + len(encoded), count
            found.kinds[i] = NONE if key is None or (self.number and count < 0) else PLAIN
            parts.append(np.frombuffer(encoded, np.uint8))
            size += len(encoded)
        return np.concatenate(parts)

    def _odd(self, text: str) -> tuple[str | None, int]:
        """The key and the count (-1: none) of a message that is JSON, but for names that are there twice."""
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(limit + 2000)  # the kernel has counted the levels
        try:
            found, _ = _DECODER.raw_decode(text.lstrip(" \t\r\n"))
        except (_Twice, RecursionError):
            return None, -1
        finally:
            sys.setrecursionlimit(limit)
        count = found.get(self.number)
        whole = isinstance(count, _Number) and count.lstrip("-").isdigit() and len(count) <= DIGITS
        for name in self.path:
            found = found.get(name) if isinstance(found, dict) else None
        return self._key(found), max(-1, int(count)) if whole else -1

    def _key(self, found: Any) -> str | None:
        if isinstance(found, _Number):
            return written(found) if self.scalars else None
        if isinstance(found, bool):
            return str(found).lower() if self.scalars else None
        return found if isinstance(found, str) else None


def written(number: str) -> str:
    """A number of JSON as Spark writes it: as a decimal if it has no exponent and few digits, else as Java's double.

    >>> [written(number) for number in ("-0", "12.50", "1e3", "1E-7", "1e400")]
    ['0', '12.5', '1000.0', '1.0E-7', 'Infinity']
    """
    _, _, fraction = number.partition(".")
    digits = number.replace(".", "").lstrip("-").lstrip("0")
    if "e" not in number.lower() and max(len(digits), len(fraction)) <= _PRECISION:
        plain = number.rstrip("0").rstrip(".") if fraction else number
        return "0" if plain == "-0" else plain
    value = float(number)
    if not np.isfinite(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return np.format_float_positional(value, trim="0")
    mantissa, exponent = np.format_float_scientific(value, trim="0").split("e")
    return f"{mantissa}E{int(exponent)}"


class _Number(str):
    """A number as it is spelled."""

    __slots__ = ()


class _Twice(ValueError):
    """An object has a name twice: which of the two?"""


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _Twice
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_distinct, parse_int=_Number, parse_float=_Number)


def _buffers(messages: pa.Array) -> tuple[Bytes, Places]:
    """The bytes of n messages, and where they begin and end (int64[n + 1])."""
    _, offsets, data = messages.buffers()
    wide = np.int64 if pa.types.is_large_binary(messages.type) else np.int32
    if not len(messages):
        return np.frombuffer(b"", np.uint8), np.zeros(1, np.int64)
    bounds = np.frombuffer(offsets, wide, len(messages) + 1, messages.offset * np.dtype(wide).itemsize)
    return np.frombuffer(data or b"", np.uint8), bounds.astype(np.int64)


def _bodies(data: Bytes, heads: Places, tails: Places) -> Places:
    """Where the messages begin behind their framing."""
    framed = heads < tails
    framed[framed] = data[heads[framed]] == 0
    return np.where(framed, np.minimum(heads + FRAME, tails), heads)


def _texts(data: Bytes, found: Found) -> pa.Array:
    """The keys as an array of strings; null where there is none."""
    there = found.kinds != NONE
    out = np.empty(int((found.ends - found.begins)[there].sum()), np.uint8)
    bounds = np.empty(len(there) + 1, np.int64)
    size = gather(data, found, out, bounds)
    missing = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    buffers = [missing, pa.py_buffer(bounds), pa.py_buffer(out[:size])]
    return pa.Array.from_buffers(pa.large_string(), len(there), buffers).cast(pa.string())
