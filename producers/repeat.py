"""A dataset over and over."""

from collections.abc import Iterator
from itertools import count

from producers.dataset import Block, Dataset


class Repeated(Dataset):
    """A dataset sent several times, or without end: its records, from the first to the last, again and again.

    Parameters
    ----------
    dataset : Dataset
        Its number of records must be known, and at least 1.
    times : int or None
        How often; None: without end.

    """

    def __init__(self, dataset: Dataset, times: int | None = None) -> None:
        if not dataset.records:
            raise ValueError(f"{dataset.name} has no records to repeat")
        if times is not None and times < 1:
            raise ValueError(f"repeat is {times}; valid: at least 1")
        self._dataset = dataset
        self._length = dataset.records
        self._times = times
        self.name = dataset.name
        self.summary = dataset.summary
        self.published = dataset.published if times == 1 else None
        self.records = None if times is None else times * self._length

    def blocks(self, start: int = 0) -> Iterator[Block]:
        done, within = divmod(start, self._length)
        for _ in count(done) if self._times is None else range(done, self._times):
            yield from self._dataset.blocks(within)
            within = 0
