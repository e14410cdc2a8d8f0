"""Lines of fields with a separator, whole columns at a time; the lines that aren't what they should be, one by one."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.producers.dataset import Block
from unskew.producers.readers.lines import Lines, pieces

# More digits may not fit into 64 bits; nothing is counted that often.
_DIGITS = 18
# Seconds since the epoch, up to the year 33658.
_SECONDS = r"^[0-9]{1,12}(\.[0-9]*)?$"


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a batch of lines came to.

    Attributes
    ----------
    block : Block
        The messages.
    rejected : list of (number, reason, line)
        The lines that gave none because something is wrong with them, by their numbers in the file.

    """

    block: Block
    rejected: list[tuple[int, str, bytes]] = field(default_factory=list)


class Fields:
    """The fields of the lines that have the right number of them; checks narrow the lines down further.

    Parameters
    ----------
    lines : Lines
        The lines.
    separator : bytes
        One byte.
    names : tuple of str
        The fields, as reasons name them.

    """

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

    def text(self, name: str) -> pa.Array:
        """A column of text, string[n] of the lines that are left."""
        return self._bytes(name).cast(pa.string())

    def require_text(self, name: str) -> None:
        """Reject the lines in which this field is empty."""
        self._require(self._lengths(name) > 0, f"no {name}")

    def require_digits(self, name: str) -> None:
        """Reject the lines in which this field is no whole number of at least 0."""
        lengths = self._lengths(name)
        good = (lengths > 0) & (lengths <= _DIGITS)
        column = self._bytes(name)
        used = np.frombuffer(column.buffers()[2] or b"", np.uint8)[: int(lengths.sum())]
        if ((used < ord("0")) | (used > ord("9"))).any():
            good &= np.array([text.isdigit() for text in column.to_pylist()], np.bool_)
        self._require(good, f"{name} is no number")

    def require_seconds(self, name: str) -> None:
        """Reject the lines in which this field is no time in seconds, with or without a fraction."""
        good = pc.call_function("match_substring_regex", [self.text(name)], pc.MatchSubstringOptions(_SECONDS))
        self._require(good.to_numpy(zero_copy_only=False), f"{name} is no time in seconds")

    def digits(self, name: str) -> NDArray[np.int64]:
        """A column of whole numbers, int64[n]; ``require_digits`` comes first."""
        return pc.cast(self.text(name), pa.int64()).to_numpy()

    def seconds(self, name: str) -> NDArray[np.int64]:
        """A column of times, whole seconds, int64[n]; ``require_seconds`` comes first."""
        return pc.cast(self.text(name), pa.float64()).to_numpy().astype(np.int64)

    def _bytes(self, name: str) -> pa.Array:
        at = self._names.index(name)
        return pieces(self._lines.data, self._bounds[:, at] + 1, self._bounds[:, at + 1])

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
