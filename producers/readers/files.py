"""A dataset read from files of lines."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from unskew.producers.datasets.interface import Block, Dataset
from unskew.producers.readers.inputs import STANDARD_INPUT, Input
from unskew.producers.readers.lines import TOO_LONG, Lines, ParsedLines, Section, read_sections
from unskew.producers.readers.rejected_records import RejectedRecord, RejectLog

Format: TypeAlias = Callable[[Lines], ParsedLines]


@dataclass(frozen=True, slots=True)
class FilePosition:
    """A position between two records of the files, whose fields a journal has as JSON."""

    position: int = 0  #: The number of records before it, in all files.
    file: int = 0  #: The number of its file, from 0.
    offset: int = 0  #: Bytes, decompressed, and lines of that file before it.
    line: int = 0
    begin: str = ""  #: The file's first line (Latin-1), which determines the format.


class FileDataset(Dataset):
    """Messages from lines of text, one file after the other, at most ``limit``.

    ``format_of`` returns the format of a file from the file's first line. Each line that gives no message is rejected
    once, even if the files are read several times. ``consumed`` are the bytes of the files read so far, compressed as
    they are, and ``size`` those of all, or None if unknown.
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
        return asdict(self._position)

    def recall(self, position: Mapping[str, Any]) -> None:
        self._known = FilePosition(**position)

    def blocks(self, start: int = 0) -> Iterator[Block]:
        at = self._known if self._known.position <= start else FilePosition()
        for number in range(at.file, len(self.files)):
            if number > at.file:
                at = FilePosition(at.position, number)
            for block, behind in self._file(at):
                first, last = max(start - at.position, 0), len(block)
                if self._limit is not None:
                    last = min(last, self._limit - at.position)
                at = self._position = behind
                if first < last:
                    yield block if (first, last) == (0, len(block)) else block.slice(first, last)
                if self._limit is not None and at.position >= self._limit:
                    return

    def _file(self, at: FilePosition) -> Iterator[tuple[Block, FilePosition]]:
        """The blocks of one file from a position in it, each with the position behind it."""
        before = sum(file.size or 0 for file in self.files[: at.file])
        records, begin = at.position, at.begin
        with self.files[at.file].open() as stream:
            stream.skip(at.offset)
            for section in read_sections(stream, number=at.line):
                self.consumed = before + stream.bytes_read
                if not begin and len(section.lines):
                    begin = section.lines[0].decode("latin-1")
                parsed = self._format_of(begin.encode("latin-1"))(section.lines)
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
