"""A dataset read from files."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from unskew.producers.dataset import Block, Dataset
from unskew.producers.readers.fields import Parsed
from unskew.producers.readers.inputs import STANDARD_INPUT, Input
from unskew.producers.readers.lines import TOO_LONG, Batch, Lines, batches
from unskew.producers.readers.rejects import Reject, Rejects

Format: TypeAlias = Callable[[Lines], Parsed]


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the files a record is.

    Attributes
    ----------
    position : int
        Records before it, in all files.
    file : int
        Which file, from 0.
    offset, line : int
        Bytes (decompressed) and lines of that file before it.
    begin : bytes
        The file's first line, which tells its format.

    """

    position: int = 0
    file: int = 0
    offset: int = 0
    line: int = 0
    begin: bytes = b""


class Files(Dataset):
    """Messages from lines of text; one file after the other.

    Parameters
    ----------
    name : str
        The source type.
    files : sequence of Input
        What to read.
    format_of : callable
        The format of a file that begins with this line.
    rejects : Rejects
        Takes the lines that give no message, each once, however often the files are read.
    limit : int or None
        Read no more than so many records.

    Attributes
    ----------
    consumed : int
        Bytes of the files that have been read, as they lie there.
    size : int or None
        Bytes of all files; None: unknown.
    """

    def __init__(
        self,
        name: str,
        files: Sequence[Input],
        format_of: Callable[[bytes], Format],
        rejects: Rejects,
        limit: int | None = None,
    ) -> None:
        self.name = name
        self.summary = f"{len(files)} files" if len(files) != 1 else files[0].name
        self.files = list(files)
        self.consumed = 0
        self.size = None if any(file.size is None for file in files) else sum(file.size or 0 for file in files)
        self._place = Place()
        self._format_of = format_of
        self._rejects = rejects
        self._limit = limit
        self._known = Place()
        self._noted = (-1, 0)

    def done(self) -> float | None:
        return self.consumed / self.size if self.size else None

    def identity(self) -> dict[str, Any] | None:
        if any(file.name == STANDARD_INPUT for file in self.files):
            return None
        files = [file.fingerprint() for file in self.files]
        return {"dataset": self.name, "files": files, "limit": self._limit}

    def place(self) -> dict[str, Any]:
        """Up to where the blocks given out reach."""
        return {**asdict(self._place), "begin": self._place.begin.decode("latin-1")}

    def recall(self, place: Mapping[str, Any]) -> None:
        self._known = Place(**{**place, "begin": place["begin"].encode("latin-1")})

    def blocks(self, start: int = 0) -> Iterator[Block]:
        at = self._known if self._known.position <= start else Place()
        for number in range(at.file, len(self.files)):
            if number > at.file:
                at = Place(at.position, number)
            for block, place in self._file(at):
                first, last = max(start - at.position, 0), len(block)
                if self._limit is not None:
                    last = min(last, self._limit - at.position)
                at = self._place = place
                if first < last:
                    yield block if (first, last) == (0, len(block)) else block.slice(first, last)
                if self._limit is not None and at.position >= self._limit:
                    return

    def _file(self, at: Place) -> Iterator[tuple[Block, Place]]:
        """The blocks of one file from a place in it, each with the place behind it."""
        before = sum(file.size or 0 for file in self.files[: at.file])
        position, begin = at.position, at.begin
        with self.files[at.file].open() as stream:
            stream.skip(at.offset)
            for batch in batches(stream, number=at.line):
                self.consumed = before + stream.consumed
                if not begin and len(batch.lines):
                    begin = batch.lines[0]
                parsed = self._format_of(begin)(batch.lines)
                self._note(at.file, batch, parsed)
                position += len(parsed.block)
                yield parsed.block, Place(position, at.file, batch.offset, batch.number, begin)

    def _note(self, file: int, batch: Batch, parsed: Parsed) -> None:
        overlong = [(number, TOO_LONG, data) for number, data in batch.overlong]
        for line, reason, data in sorted(overlong + parsed.rejected):
            if (file, line) > self._noted:
                self._rejects.add(Reject(self.files[file].name, line, reason, data))
        if batch.number:
            self._noted = max(self._noted, (file, batch.number))
