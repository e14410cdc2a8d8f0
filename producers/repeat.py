"""A dataset over and over."""

from collections.abc import Iterator
from itertools import count
from typing import Any

from unskew.producers.dataset import Block, Dataset


class Repeated(Dataset):
    """A dataset sent several times, or without end: its records, from the first to the last, again and again.

    Parameters
    ----------
    dataset : Dataset
        Must come to an end.
    times : int or None
        How often; None: without end.

    """

    def __init__(self, dataset: Dataset, times: int | None = None) -> None:
        if dataset.records == 0:
            raise ValueError(f"{dataset.name} has no records to repeat")
        if times is not None and times < 1:
            raise ValueError(f"repeat is {times}; valid: at least 1")
        self._dataset = dataset
        self._times = times
        self.name = dataset.name
        self.summary = dataset.summary
        self._turn = 0
        self.published = dataset.published if times == 1 else None
        self.records = None if times is None or dataset.records is None else times * dataset.records

    def identity(self) -> dict[str, Any] | None:
        identity = self._dataset.identity()
        return identity and {**identity, "times": self._times}

    def done(self) -> float | None:
        share = self._dataset.done()
        return None if share is None or self._times is None else (self._turn + share) / self._times

    def blocks(self, start: int = 0) -> Iterator[Block]:
        length = self._dataset.records
        done, skip = divmod(start, length) if length else (0, start)
        for turn in count(done) if self._times is None else range(done, self._times):
            self._turn, records = turn, 0
            for block in self._dataset.blocks(skip if length else 0):
                records += len(block)
                first = 0 if length else min(skip, len(block))
                skip -= first
                if first < len(block):
                    yield block.slice(first, len(block)) if first else block
            if not records:
                return  # files without any: the next time would have none either
            skip = 0 if length else skip
