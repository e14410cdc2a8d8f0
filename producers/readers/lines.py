"""Text as sections of lines, and the lines' fields as whole columns, without a Python object for each of them.

Only lines that can't be read are looked at one by one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.producers.datasets.interface import Block
from unskew.producers.readers.inputs import ByteStream

_NEWLINE, _RETURN = 0x0A, 0x0D
BOM = b"\xef\xbb\xbf"
#: Longer lines are rejected. Six times as much, were every character escaped, still fits into a Kafka message.
LONGEST = 160_000
TOO_LONG = f"line of more than {LONGEST:,} bytes"
# More digits may not fit into 64 bits; nothing is counted that often.
_DIGITS = 18
# Seconds since the epoch, up to the year 33658.
_SECONDS = r"^[0-9]{1,12}(\.[0-9]*)?$"


@dataclass(frozen=True, slots=True)
class Lines:
    """n consecutive lines of a file, without line ends. Empty lines are left out."""

    data: NDArray[np.uint8]  #: uint8[bytes]: The part of the file that the lines are in.
    starts: NDArray[np.int64]  #: int64[n]: Line i is ``data[starts[i]:stops[i]]``.
    stops: NDArray[np.int64]
    numbers: NDArray[np.int64]  #: int64[n]: The lines' numbers in the file, from 1.

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, line: int) -> bytes:
        return self.data[self.starts[line] : self.stops[line]].tobytes()

    def only(self, lines: NDArray[np.bool_]) -> "Lines":
        """The lines with a true entry in ``lines``, bool[n]."""
        return Lines(self.data, self.starts[lines], self.stops[lines], self.numbers[lines])

    def valid_utf8(self) -> NDArray[np.bool_]:
        """Whether each line is UTF-8, bool[n]."""
        if _is_utf8(self.data.tobytes()):
            return np.ones(len(self), np.bool_)
        return np.array([_is_utf8(self[line]) for line in range(len(self))], np.bool_)


@dataclass(frozen=True, slots=True)
class Section:
    """Some consecutive lines of a file."""

    lines: Lines  #: Complete lines.
    overlong: list[tuple[int, bytes]]  #: list of (number, first bytes): Lines that were too long to be kept.
    offset: int  #: Bytes, decompressed, and lines of the file up to the section's end.
    number: int


def read_sections(stream: ByteStream, size: int = 1 << 21, number: int = 0) -> Iterator[Section]:
    """The lines of a stream in sections of about ``size`` bytes, in bounded memory whatever the lines' length.

    Lines end with LF or CR LF, and the last one may have no end. ``number`` lines come before the stream's position.
    """
    rest, offset = b"", stream.offset
    overlong: list[tuple[int, bytes]] = []
    skipped = 0  # bytes of a line that is too long and hasn't ended yet
    while True:
        read = stream.read(size)
        data = rest + read
        if offset == 0 and data.startswith(BOM):
            data, offset = data[len(BOM) :], len(BOM)
        if skipped:
            end = data.find(b"\n") + 1 or (len(data) if not read else 0)
            if end:
                offset, number, skipped = offset + skipped + end, number + 1, 0
                data = data[end:]
            else:
                data, skipped = b"", skipped + len(data)
        cut = data.rfind(b"\n") + 1 if read else len(data)
        rest, body = data[cut:], data[:cut]
        lines, long = _cut_lines(body, number)
        overlong += long
        number += body.count(b"\n") + (body[-1:] not in (b"", b"\n"))
        offset += len(body)
        if len(rest) > LONGEST:
            overlong.append((number + 1, rest[:LONGEST]))
            rest, skipped = b"", len(rest)
        if len(lines) or overlong:
            yield Section(lines, overlong, offset, number)
            overlong = []
        if not read:
            return


def _cut_lines(body: bytes, number: int) -> tuple[Lines, list[tuple[int, bytes]]]:
    data = np.frombuffer(body, np.uint8)
    stops = np.flatnonzero(data == _NEWLINE)
    if len(data) and data[-1] != _NEWLINE:
        stops = np.append(stops, len(data))
    starts = np.concatenate([[0], stops[:-1] + 1]).astype(np.int64) if len(stops) else np.empty(0, np.int64)
    if b"\r" in body:
        stops = stops - ((stops > starts) & (data[np.maximum(stops - 1, 0)] == _RETURN))
    lines = Lines(data, starts, stops, np.arange(number + 1, number + 1 + len(starts)))
    long = lines.stops - lines.starts > LONGEST
    overlong = [(int(lines.numbers[at]), lines[at][:LONGEST]) for at in np.flatnonzero(long).tolist()]
    return lines.only((stops > starts) & ~long), overlong


def slice_bytes(data: NDArray[np.uint8], starts: NDArray[np.int64], stops: NDArray[np.int64]) -> pa.Array:
    """``data[starts[i]:stops[i]]`` for each i, binary[n]. These ranges must ascend without overlap."""
    if not len(starts):
        return pa.array([], pa.binary())
    # An array over the data of every piece and of the bytes between it and the next; then every other element of it.
    offsets = np.empty(2 * len(starts), np.int32)
    offsets[0::2], offsets[1::2] = starts, stops
    both = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return both.take(pa.array(np.arange(0, len(both), 2)))


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class ParsedLines:
    """The messages of some lines."""

    block: Block  #: The messages.
    #: list of (number, reason, line): The lines that gave no message because they are invalid, with their numbers in
    #: the file.
    rejected: list[tuple[int, str, bytes]] = field(default_factory=list)


class LineFields:
    """The named fields of those lines that have the right number of them. Further checks reject more lines."""

    def __init__(self, lines: Lines, separator: bytes, names: tuple[str, ...]) -> None:
        self._lines = lines
        self._names = names
        self._where = np.arange(len(lines))
        self.rejected: list[tuple[int, str, bytes]] = []
        self._require(lines.valid_utf8(), "not UTF-8")

        separators = np.flatnonzero(lines.data == separator[0])
        first = np.searchsorted(separators, lines.starts[self._where])
        found = np.searchsorted(separators, lines.stops[self._where]) - first
        right = found == len(names) - 1
        for line, count in zip(self._where[~right].tolist(), (found[~right] + 1).tolist(), strict=True):
            self._reject(line, f"{count} fields instead of {len(names)}")
        self._where, first = self._where[right], first[right]
        bounds = (
            separators[first[:, None] + np.arange(len(names) - 1)] if len(first) else np.empty((0, len(names) - 1), int)
        )
        # bounds[i, j] … bounds[i, j + 1]: field j of line i, with the byte before it
        self._bounds = np.column_stack(
            [lines.starts[self._where] - 1, bounds.astype(np.int64), lines.stops[self._where]]
        )

    def __len__(self) -> int:
        """How many lines are left."""
        return len(self._where)

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The numbers of the lines that are left, int64[n]."""
        return self._lines.numbers[self._where]

    def text(self, name: str) -> pa.Array:
        """A column of text, string[n], of the lines that are left."""
        return self._bytes(name).cast(pa.string())

    def require_text(self, name: str) -> None:
        """Reject the lines in which this field is empty."""
        self._require(self._lengths(name) > 0, f"no {name}")

    def require_digits(self, name: str) -> None:
        """Reject the lines in which this field isn't a whole number of at least 0."""
        lengths = self._lengths(name)
        good = (lengths > 0) & (lengths <= _DIGITS)
        column = self._bytes(name)
        used = np.frombuffer(column.buffers()[2] or b"", np.uint8)[: int(lengths.sum())]
        if ((used < ord("0")) | (used > ord("9"))).any():
            good &= np.array([text.isdigit() for text in column.to_pylist()], np.bool_)
        self._require(good, f"{name} is no number")

    def require_seconds(self, name: str) -> None:
        """Reject the lines in which this field isn't a time in seconds, with or without a fraction."""
        good = pc.call_function("match_substring_regex", [self.text(name)], pc.MatchSubstringOptions(_SECONDS))
        self._require(good.to_numpy(zero_copy_only=False), f"{name} is no time in seconds")

    def digits(self, name: str) -> NDArray[np.int64]:
        """A column of whole numbers, int64[n]. Call ``require_digits`` first."""
        return pc.cast(self.text(name), pa.int64()).to_numpy()

    def seconds(self, name: str) -> NDArray[np.int64]:
        """A column of times in whole seconds, int64[n]. Call ``require_seconds`` first."""
        return pc.cast(self.text(name), pa.float64()).to_numpy().astype(np.int64)

    def _bytes(self, name: str) -> pa.Array:
        at = self._names.index(name)
        return slice_bytes(self._lines.data, self._bounds[:, at] + 1, self._bounds[:, at + 1])

    def _lengths(self, name: str) -> NDArray[np.int64]:
        at = self._names.index(name)
        return self._bounds[:, at + 1] - self._bounds[:, at] - 1

    def _require(self, good: NDArray[np.bool_], reason: str) -> None:
        if good.all():
            return
        for line in self._where[~good].tolist():
            self._reject(line, reason)
        self._where = self._where[good]
        if hasattr(self, "_bounds"):
            self._bounds = self._bounds[good]

    def _reject(self, line: int, reason: str) -> None:
        self.rejected.append((int(self._lines.numbers[line]), reason, self._lines[line]))
