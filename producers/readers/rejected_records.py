"""Rejects: lines that gave no message. They are counted, the first are shown, and all can be written to a file."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import orjson
from rich.console import Console
from rich.table import Table

from unskew.errors import EnvironmentFault, UsageError

SAMPLES = 5
SHOWN = 100  # characters of a line


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A line that gave no message: its file and number, the reason, and its bytes."""

    file: str
    line: int
    reason: str
    data: bytes

    @property
    def text(self) -> str:
        """The line as text. Bytes that aren't UTF-8 are backslash escapes."""
        return self.data.decode(errors="backslashreplace")


class RejectLog:
    """The rejects of an upload. It is a context manager; when it ends, the file at ``path`` is complete.

    The file has JSON lines ``{"file","line","reason","text"}``: ``EnvironmentFault`` if it can't be written. If
    ``strict``, the first reject is an error. ``reasons`` has the number of lines for each reason, ``samples`` the first
    few rejects.
    """

    def __init__(self, path: Path | None = None, *, strict: bool = False) -> None:
        self.reasons: Counter[str] = Counter()
        self.samples: list[RejectedRecord] = []
        self._strict = strict
        try:
            self._file = path.open("wb") if path else None
        except OSError as error:
            raise EnvironmentFault(f"--rejects {path} cannot be written: {error.strerror}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()

    @property
    def total(self) -> int:
        """How many rejects there were."""
        return self.reasons.total()

    def show(self, console: Console) -> None:
        """Print the number of rejects for each reason, and the first few rejects. Without any, print nothing."""
        if not self.total:
            return
        table = Table("lines", "why", title=f"{self.total:,} lines gave no message", title_justify="left")
        for reason, lines in self.reasons.most_common():
            table.add_row(f"{lines:,}", reason)
        console.print(table)
        for reject in self.samples:
            console.print(
                f"{reject.file}:{reject.line}: {reject.reason}: {reject.text[:SHOWN]!r}", markup=False, soft_wrap=True
            )

    def add(self, reject: RejectedRecord) -> None:
        """Count a reject, and write it to the file. Raises ``UsageError`` if ``strict`` is set."""
        if self._strict:
            raise UsageError(f"{reject.file}, line {reject.line}: {reject.reason}: {reject.text[:SHOWN]!r}")
        self.reasons[reject.reason] += 1
        if len(self.samples) < SAMPLES:
            self.samples.append(reject)
        if self._file:
            row = {"file": reject.file, "line": reject.line, "reason": reject.reason, "text": reject.text}
            self._file.write(orjson.dumps(row) + b"\n")
