"""Finds event logs in a folder, and reads their lines, in any of Spark's compressions.

Spark's `.lz4` and `.snappy` aren't the usual formats, but blocks with headers of lz4-java and snappy-java. Arrow
decompresses the blocks.
"""

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyarrow as pa

from unskew.errors import EnvironmentFault, UsageError

_READABLE = "valid: plain text, .zstd, .lz4, .snappy (spark.eventLog.compression.codec)"
_BLOCK = 1 << 20  # bytes per read
_PIECE = 1 << 14  # decompressed bytes per read: at most so much is lost at the end of a log being written
_LZ4_HEADER = struct.Struct("<8sBiii")  # LZ4Block, method and level, length, decompressed length, checksum
_LZ4_RAW = 0x10  # the method of an uncompressed block
_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
#: The files of a rolling log are numbered. A compacted one replaces those up to its number.
_ROLLED = re.compile(r"events_(\d+)_.*?(\.compact)?(?:\.inprogress)?$")

Read = Callable[[int], None]


@dataclass(frozen=True)
class LogFiles:
    """The event log of an application: its name (the application's id), and its files in order."""

    name: str
    files: tuple[Path, ...]

    @property
    def size(self) -> int:
        return sum(file.stat().st_size for file in self.files)

    @property
    def changed(self) -> float:
        """When the newest file was modified."""
        return max(file.stat().st_mtime for file in self.files)

    def read_lines(self, count: Read = lambda _: None) -> Iterator[bytes]:
        """The lines of all files. ``count`` gets the size (bytes) of each block read.

        Raises ``UsageError`` if a file's compression isn't one of Spark's; ``EnvironmentFault`` if a file can't be
        read.
        """
        for file in self.files:
            try:
                with file.open("rb") as opened:
                    yield from _split_lines(_decompress(file, opened, count))
            except OSError as error:
                # A log being written, or whose driver died, ends within a block.
                if "runcated" not in str(error):
                    raise EnvironmentFault(f"{file} cannot be read: {error.strerror or error}") from None


def find_logs(path: Path) -> list[LogFiles]:
    """The event logs in a folder, newest first, or the one that a file or a rolling log's folder is.

    Raises ``UsageError`` if the file doesn't exist, or the folder has no logs.
    """
    if path.is_file():
        return [LogFiles(_name_application(path.name), (path,))]
    if not path.is_dir():
        raise UsageError(f"there is no event log {str(path)!r}; valid: a file, or a folder (spark.eventLog.dir)")
    if rolled := _find_rolled(path):
        return [LogFiles(_name_application(path.name), rolled)]
    found = [log for child in path.iterdir() if (log := _find_log(child))]
    if not found:
        raise UsageError(f"folder {str(path)!r} has no event log; valid: one with Spark's logs (spark.eventLog.dir)")
    return sorted(found, key=lambda log: (log.changed, log.name), reverse=True)


def _find_log(path: Path) -> LogFiles | None:
    files = _find_rolled(path) if path.is_dir() else (path,) if path.stat().st_size else ()
    return LogFiles(_name_application(path.name), files) if files and not path.name.startswith(".") else None


def _find_rolled(folder: Path) -> tuple[Path, ...]:
    found = [(int(match[1]), bool(match[2]), path) for path in folder.iterdir() if (match := _ROLLED.match(path.name))]
    first = max(((number, compacted) for number, compacted, _ in found if compacted), default=(0, False))
    return tuple(path for number, compacted, path in sorted(found) if (number, compacted) >= first)


def _name_application(name: str) -> str:
    """The application's id, with which its log's name begins.

    >>> _name_application("eventlog_v2_app-1"), _name_application("app-1.zstd.inprogress")
    ('app-1', 'app-1')
    """
    return name.removeprefix("eventlog_v2_").partition(".")[0]


def _decompress(path: Path, file: IO[bytes], count: Read) -> Iterator[bytes]:
    codec = path.name.removesuffix(".inprogress").removesuffix(".compact").rpartition(".")[2]
    if codec in ("zstd", "zst"):
        with pa.CompressedInputStream(pa.PythonFile(_Counted(file, count), mode="r"), "zstd") as stream:
            while block := stream.read(_PIECE):
                yield block
    elif codec == "lz4":
        yield from _read_lz4(_Counted(file, count))
    elif codec == "snappy":
        yield from _read_snappy(_Counted(file, count))
    elif codec in ("lzf", "gz", "bz2", "xz"):
        raise UsageError(f"{path} is compressed by {codec}; {_READABLE}")
    else:
        while block := file.read(_BLOCK):
            count(len(block))
            yield block


class _Counted:
    """A file that reports how much of it is read."""

    def __init__(self, file: IO[bytes], count: Read) -> None:
        self._file, self._count = file, count
        self.closed = False

    def read(self, size: int) -> bytes:
        block = self._file.read(size)
        self._count(len(block))
        return block

    def read_exactly(self, size: int) -> bytes:
        if len(block := self.read(size)) < size:
            raise OSError("truncated")
        return block

    def close(self) -> None:
        self.closed = True


def _read_lz4(file: _Counted) -> Iterator[bytes]:
    """The blocks of lz4-java's ``LZ4BlockOutputStream``. The last one of a stream is empty; another may follow."""
    codec = pa.Codec("lz4_raw")
    while first := file.read(1):
        magic, method, size, length, _ = _LZ4_HEADER.unpack(first + file.read_exactly(_LZ4_HEADER.size - 1))
        if magic != b"LZ4Block":
            raise UsageError(f"the log isn't compressed by Spark's lz4; {_READABLE}")
        block = file.read_exactly(size)
        if length:
            yield block if method & 0xF0 == _LZ4_RAW else codec.decompress(block, length, asbytes=True)


def _read_snappy(file: _Counted) -> Iterator[bytes]:
    """The blocks of snappy-java's ``SnappyOutputStream``: a header (16 bytes), then lengths and blocks."""
    codec = pa.Codec("snappy")
    while first := file.read(1):
        size = first + file.read_exactly(3)
        if size == _SNAPPY_MAGIC[:4]:
            if size + file.read_exactly(12)[:4] != _SNAPPY_MAGIC:
                raise UsageError(f"the log isn't compressed by Spark's snappy; {_READABLE}")
            continue
        block = file.read_exactly(int.from_bytes(size, "big"))
        yield codec.decompress(block, _read_varint(block), asbytes=True)


def _read_varint(block: bytes) -> int:
    """The decompressed length with which a Snappy block begins: seven bits per byte, lowest first.

    >>> _read_varint(bytes([0xAC, 0x02]))
    300
    """
    length = 0
    for place, byte in enumerate(block):
        length |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    return length


def _split_lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        yield from lines
    if rest:
        yield rest
