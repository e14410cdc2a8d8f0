"""Text as batches of lines, and their fields, without a Python object for any of them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.producers.readers.inputs import ByteStream

_NEWLINE, _RETURN = 0x0A, 0x0D
_BOM = b"\xef\xbb\xbf"
#: Longer lines are rejected. Six times as much, were every character escaped, still fits into a Kafka message.
LONGEST = 160_000
TOO_LONG = f"line of more than {LONGEST:,} bytes"


@dataclass(frozen=True, slots=True)
class Lines:
    """n consecutive lines of a file, without their ends; empty ones are left out.

    Attributes
    ----------
    data : uint8[bytes]
        Where they are.
    starts, stops : int64[n]
        Line i is ``data[starts[i]:stops[i]]``.
    numbers : int64[n]
        Their numbers in the file, from 1.

    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    numbers: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, line: int) -> bytes:
        return self.data[self.starts[line] : self.stops[line]].tobytes()

    def only(self, lines: NDArray[np.bool_]) -> "Lines":
        """The lines for which it is true, bool[n]."""
        return Lines(self.data, self.starts[lines], self.stops[lines], self.numbers[lines])

    def valid_utf8(self) -> NDArray[np.bool_]:
        """Whether each line is UTF-8, bool[n]."""
        if _is_utf8(self.data.tobytes()):
            return np.ones(len(self), np.bool_)
        return np.array([_is_utf8(self[line]) for line in range(len(self))], np.bool_)


@dataclass(frozen=True, slots=True)
class Batch:
    """What one step through a file gives.

    Attributes
    ----------
    lines : Lines
        Complete lines.
    overlong : list of (number, first bytes)
        Lines that were too long to be kept.
    offset, number : int
        Bytes (decompressed) and lines of the file up to the end of the batch.

    """

    lines: Lines
    overlong: list[tuple[int, bytes]]
    offset: int
    number: int


def batches(stream: ByteStream, size: int = 1 << 21, number: int = 0) -> Iterator[Batch]:
    """The lines of a stream in batches of about ``size`` bytes; memory is bounded whatever the lines' length.

    Lines end with LF or CR LF; the last one may lack its end. ``number`` lines come before the stream's position.
    """
    rest, offset = b"", stream.offset
    overlong: list[tuple[int, bytes]] = []
    skipped = 0  # bytes of a line that is too long and hasn't ended yet
    while True:
        read = stream.read(size)
        data = rest + read
        if offset == 0 and data.startswith(_BOM):
            data, offset = data[len(_BOM) :], len(_BOM)
        if skipped:
            end = data.find(b"\n") + 1 or (len(data) if not read else 0)
            if end:
                offset, number, skipped = offset + skipped + end, number + 1, 0
                data = data[end:]
            else:
                data, skipped = b"", skipped + len(data)
        cut = data.rfind(b"\n") + 1 if read else len(data)
        rest, body = data[cut:], data[:cut]
        lines, long = _cut(body, number)
        overlong += long
        number += body.count(b"\n") + (body[-1:] not in (b"", b"\n"))
        offset += len(body)
        if len(rest) > LONGEST:
            overlong.append((number + 1, rest[:LONGEST]))
            rest, skipped = b"", len(rest)
        if len(lines) or overlong:
            yield Batch(lines, overlong, offset, number)
            overlong = []
        if not read:
            return


def _cut(body: bytes, number: int) -> tuple[Lines, list[tuple[int, bytes]]]:
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


def pieces(data: NDArray[np.uint8], starts: NDArray[np.int64], stops: NDArray[np.int64]) -> pa.Array:
    """``data[starts[i]:stops[i]]`` for each i, which must ascend without overlap: binary[n]."""
    if not len(starts):
        return pa.array([], pa.binary())
    # Every piece and what is between it and the next, as one array over the data; then every other one.
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
