"""A dataset read from files of lines."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

from unskew.producers.datasets.interface import Block, Dataset
from unskew.producers.readers.inputs import STANDARD_INPUT, Input
from unskew.producers.readers.lines import TOO_LONG, Lines, ParsedLines, Section, read_sections
from unskew.producers.readers.rejected_records import RejectedRecord, RejectLog

Format: TypeAlias = Callable[[Lines], ParsedLines]


@dataclass(frozen=True, slots=True)
class FilePosition:
    """A position between two records of the files."""

    records: int = 0  #: The number of records before it, in all files.
    file: int = 0  #: The number of its file, from 0.
    offset: int = 0  #: Bytes, decompressed, and lines of that file before it.
    line: int = 0
    begin: bytes = b""  #: The file's first line, which determines the format.

    def as_json(self) -> dict[str, Any]:
        """The position as a value for JSON."""
        return {
            "position": self.records,
            "file": self.file,
            "offset": self.offset,
            "line": self.line,
            "begin": self.begin.decode("latin-1"),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """The position that ``as_json`` wrote."""
        begin = value["begin"].encode("latin-1")
        return cls(value["position"], value["file"], value["offset"], value["line"], begin)


class FileDataset(Dataset):
    """Messages from lines of text, one file after the other.

    Parameters
    ----------
    name : str
        The source type.
    files : sequence of Input
        The files to read.
    format_of : callable
        Returns the format of a file from the file's first line.
    rejects : RejectLog
        Takes each line that gives no message, once, even if the files are read several times.
    limit : int or None
        The largest number of records to read.

    Attributes
    ----------
    consumed : int
        Bytes of the files read so far, compressed as they are.
    size : int or None
        Bytes of all files. None: unknown.

    """

    def __init__(
        self,
        name: str,
        files: Sequence[Input],
        format_of: Callable[[bytes], Format],
        rejects: RejectLog,
        limit: int | None = None,
    ) -> None:
        self.name = name
        self.summary = f"{len(files)} files" if len(files) != 1 else files[0].name
        self.files = list(files)
        self.consumed = 0
        self.size = None if any(file.size is None for file in files) else sum(file.size or 0 for file in files)
        self._position = FilePosition()
        self._format_of = format_of
        self._rejects = rejects
        self._limit = limit
        self._known = FilePosition()
        self._rejected = (-1, 0)  # the last file and line whose reject, if it was one, is known

    def progress(self) -> float | None:
        return self.consumed / self.size if self.size else None

    def identity(self) -> dict[str, Any] | None:
        if any(file.name == STANDARD_INPUT for file in self.files):
            return None
        files = [file.fingerprint() for file in self.files]
        return {"dataset": self.name, "files": files, "limit": self._limit}

    def position(self) -> dict[str, Any]:
        return self._position.as_json()

    def recall(self, position: Mapping[str, Any]) -> None:
        self._known = FilePosition.from_json(position)

    def blocks(self, start: int = 0) -> Iterator[Block]:
        at = self._known if self._known.records <= start else FilePosition()
        for number in range(at.file, len(self.files)):
            if number > at.file:
                at = FilePosition(at.records, number)
            for block, behind in self._file(at):
                first, last = max(start - at.records, 0), len(block)
                if self._limit is not None:
                    last = min(last, self._limit - at.records)
                at = self._position = behind
                if first < last:
                    yield block if (first, last) == (0, len(block)) else block.slice(first, last)
                if self._limit is not None and at.records >= self._limit:
                    return

    def _file(self, at: FilePosition) -> Iterator[tuple[Block, FilePosition]]:
        """The blocks of one file from a position in it, each with the position behind it."""
        before = sum(file.size or 0 for file in self.files[: at.file])
        records, begin = at.records, at.begin
        with self.files[at.file].open() as stream:
            stream.skip(at.offset)
            for section in read_sections(stream, number=at.line):
                self.consumed = before + stream.bytes_read
                if not begin and len(section.lines):
                    begin = section.lines[0]
                parsed = self._format_of(begin)(section.lines)
                self._reject(at.file, section, parsed)
                records += len(parsed.block)
                yield parsed.block, FilePosition(records, at.file, section.offset, section.number, begin)

    def _reject(self, file: int, section: Section, parsed: ParsedLines) -> None:
        overlong = [(number, TOO_LONG, data) for number, data in section.overlong]
        for line, reason, data in sorted(overlong + parsed.rejected):
            if (file, line) > self._rejected:
                self._rejects.add(RejectedRecord(self.files[file].name, line, reason, data))
        if section.number:
            self._rejected = max(self._rejected, (file, section.number))
