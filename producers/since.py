"""The later part of a dataset."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from unskew.errors import UsageError
from unskew.producers.dataset import Block, Dataset


class Since(Dataset):
    """The records that happened at a moment or later; the others are left out, wherever they are.

    Parameters
    ----------
    dataset : Dataset
        Its records must have times.
    begin : int
        The moment, ms since the epoch.

    """

    def __init__(self, dataset: Dataset, begin: int) -> None:
        self._dataset = dataset
        self._begin = begin
        self.name = dataset.name
        self.summary = dataset.summary

    def blocks(self, start: int = 0) -> Iterator[Block]:
        for block in self._dataset.blocks():
            if block.times is None:
                raise UsageError(f"{self.name} has no times: --since can't be used with it")
            later = block.times >= self._begin
            kept = int(later.sum())
            if kept > start:
                chosen = block.only(later) if kept < len(block) else block
                yield chosen.slice(start, kept) if start else chosen
            start = max(start - kept, 0)

    def identity(self) -> dict[str, Any] | None:
        identity = self._dataset.identity()
        return identity and {**identity, "since": self._begin}

    def done(self) -> float | None:
        return self._dataset.done()


def moment(text: str) -> int:
    """A moment as users write it, in ms since the epoch: seconds, or ISO 8601 (UTC unless it says otherwise).

    Examples
    --------
    >>> moment("1383264000"), moment("2013-11-01"), moment("2013-11-01T02:00+02:00")
    (1383264000000, 1383264000000, 1383264000000)

    Raises
    ------
    ValueError
        It is neither.

    """
    if text.isdecimal():
        return int(text) * 1000
    try:
        return iso(text)
    except ValueError:
        raise ValueError(f"{text!r} is no moment; valid: seconds since 1970, or 2013-11-01T12:30") from None


def iso(text: str) -> int:
    """A moment in ISO 8601 (UTC unless it says otherwise) in ms since the epoch; raises ValueError if it is none."""
    found = datetime.fromisoformat(text)
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
