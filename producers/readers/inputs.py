"""Files, directories, patterns and standard input as streams of bytes, decompressed on the way."""

import codecs
import io
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from unskew.errors import EnvironmentFault, UsageError

STANDARD_INPUT = "-"
# The first bytes of a file tell its compression; its name may be wrong, and standard input has none.
_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}
# Text that begins with these marks isn't UTF-8. The longer mark of two begins as the other one.
_MARKS = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_PEEK = 4
_SAMPLE = 1 << 16


@dataclass(frozen=True, slots=True)
class Input:
    """One file, or standard input."""

    name: str  #: The name in reports: the path, or ``-``.
    size: int | None  #: Bytes of the file, compressed as it is. None: unknown before the end.

    def fingerprint(self) -> list[Any]:
        """The file's path, size and time of change, as a value for JSON. It is equal for the same file."""
        stat = Path(self.name).stat()
        return [str(Path(self.name).absolute()), stat.st_size, stat.st_mtime_ns]

    def open(self) -> "ByteStream":
        """The file's bytes from the beginning. Raises ``EnvironmentFault`` if the file can't be opened."""
        try:
            if self.name == STANDARD_INPUT:
                return ByteStream(self.name, io.BufferedReader(io.FileIO(sys.stdin.fileno(), closefd=False)))
            return ByteStream(self.name, io.BufferedReader(io.FileIO(self.name)))
        except OSError as error:
            raise EnvironmentFault(f"{self.name} cannot be read: {error.strerror}") from None


def find_inputs(arguments: Iterable[str]) -> list[Input]:
    """The files that a command's arguments name. An argument is a path, a pattern, a directory or ``-``.

    Of a directory, all files are read, ordered by name. Files whose names begin with ``.`` or ``_`` hold no rows, as
    Spark and Hive have it: ``_SUCCESS``, ``_committed_…``, ``.part-00000.crc``. Nor do files without bytes, which Spark
    writes of an empty partition. Raises ``UsageError`` if a path or pattern names nothing, or standard input is named
    twice.
    """
    found: list[Input] = []
    for argument in arguments:
        if argument == STANDARD_INPUT:
            if any(each.name == STANDARD_INPUT for each in found):
                raise UsageError("standard input can be read only once")
            found.append(Input(argument, None))
            continue
        names = sorted(glob(argument)) if has_magic(argument) else [argument]  # noqa: PTH207  Path's has no absolute ones
        files = [file for name in names for file in _list_files(Path(name))]
        if not files:
            raise UsageError(f"{argument}: there is no such file, or none with rows")
        found += [Input(str(file), file.stat().st_size) for file in files]
    return found


def _list_files(path: Path) -> list[Path]:
    if path.is_dir():
        named = sorted(file for file in path.iterdir() if not file.name.startswith((".", "_")))
        return [file for file in named if file.is_file() and file.stat().st_size]
    return [path] if path.exists() else []


class ByteStream:
    """An input's bytes, decompressed, and as UTF-8 if a mark says that they are UTF-16. It is a context manager.

    ``offset`` is how many decompressed bytes of UTF-8 have been read.
    """

    def __init__(self, name: str, raw: io.BufferedReader) -> None:
        self.offset = 0
        self._peeked = b""
        self._name = name
        self._raw = _CountingFile(raw)
        kind = next((kind for magic, kind in _MAGIC.items() if self._raw.peek(_PEEK).startswith(magic)), None)
        self._data = pa.CompressedInputStream(pa.PythonFile(self._raw, "r"), kind) if kind else self._raw
        self._decoder: codecs.IncrementalDecoder | None = None
        begin = self._decompress(_SAMPLE) if kind else self._raw.peek(_PEEK)
        coding = next((coding for mark, coding in _MARKS.items() if begin.startswith(mark)), None)
        if coding:
            self._decoder = codecs.getincrementaldecoder(coding)("surrogatepass")
        if kind:
            self._peeked = self._as_utf8(begin)
        self._seekable = kind is None and coding is None and raw.seekable()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()

    @property
    def bytes_read(self) -> int:
        """How many bytes of the file itself have been read."""
        return self._raw.consumed

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return self._raw.closed

    def peek(self) -> bytes:
        """Some of the next bytes, at least a line, without moving past them. At the end: no bytes."""
        while b"\n" not in self._peeked and len(self._peeked) < _SAMPLE:
            if not (more := self._decompress(_SAMPLE)):
                break
            self._peeked += more
        return self._peeked

    def read(self, size: int) -> bytes:
        """The next bytes, at most ``size`` of them. At the end: no bytes.

        Raises ``EnvironmentFault`` if the bytes can't be read or decompressed.
        """
        data = self._peeked or self._decompress(size)
        data, self._peeked = data[:size], data[size:]
        self.offset += len(data)
        return data

    def skip(self, size: int) -> None:
        """Move ``size`` bytes further. This decompresses compressed bytes."""
        if self._seekable and not self._peeked:
            self._raw.seek(size)
            self.offset += size
            return
        while size > 0 and (data := self.read(min(size, 1 << 22))):
            size -= len(data)

    def _decompress(self, size: int) -> bytes:
        """The next bytes of UTF-8, some more or less than ``size`` if they are recoded. At the end: no bytes."""
        try:
            while data := self._data.read(size):
                if text := self._as_utf8(data):  # otherwise it's a part of a character
                    return text
            return self._as_utf8(b"")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise EnvironmentFault(f"{self._name} cannot be read after {self.offset:,} bytes: {reason}") from None

    def _as_utf8(self, data: bytes) -> bytes:
        # A surrogate alone is no character: it is passed on, so that its line is rejected and not the file.
        return self._decoder.decode(data, not data).encode(errors="surrogatepass") if self._decoder else data


class _CountingFile(io.RawIOBase):
    """A file that counts the bytes that are read, and whose next bytes can be looked at."""

    def __init__(self, raw: io.BufferedReader) -> None:
        self._raw = raw
        self._ahead = b""
        self.consumed = 0

    def peek(self, size: int) -> bytes:
        self._ahead += self._raw.read(size - len(self._ahead))
        return self._ahead

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        ahead, self._ahead = self._ahead, b""
        # read1 returns the bytes that a pipe has now, and doesn't wait for a full buffer.
        data = ahead + self._raw.read1(size - len(ahead) if size >= 0 else size)
        self.consumed += len(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._raw.seek(offset - len(self._ahead), io.SEEK_CUR)
        self._ahead = b""
        self.consumed += offset
        return self.consumed

    def close(self) -> None:
        self._raw.close()
        super().close()
