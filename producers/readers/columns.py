"""COLUMN: any column of a table as keys."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unskew.errors import UsageError
from unskew.producers.dataset import Block, Dataset
from unskew.producers.messages import keyed
from unskew.producers.readers.inputs import STANDARD_INPUT, Input
from unskew.producers.readers.rejects import Reject, Rejects
from unskew.producers.readers.tables import tables
from unskew.producers.since import iso


class Columns(Dataset):
    """``{"key"}`` messages from one column, in the rows' order; ``{"key","timestamp"}`` with a column of times.

    Keys are taken as text, whatever their type. Times are timestamps, ISO 8601, or numbers of ms since the epoch. Rows
    without a key, or without a time where there is a column of times, are rejected.

    Parameters
    ----------
    files : sequence of Input
        The tables: Parquet, CSV with a header, or JSON lines.
    rejects : Rejects
        Takes the rows that give no message.
    column : str
        Where the keys are.
    time : str
        Where the times are; empty: nowhere.
    limit : int or None
        Read no more than so many records.

    """

    name = "COLUMN"

    def __init__(
        self, files: Sequence[Input], rejects: Rejects, column: str, time: str = "", limit: int | None = None
    ) -> None:
        if not column:
            raise ValueError("which column? say it with -o column=NAME")
        self.summary = f"column {column} of {files[0].name}" + (" and others" if len(files) > 1 else "")
        self._files = list(files)
        self._column, self._time = column, time
        self._rejects = rejects
        self._limit = limit
        self._noted: set[str] = set()

    def identity(self) -> dict[str, Any] | None:
        if any(file.name == STANDARD_INPUT for file in self._files):
            return None
        files = [file.fingerprint() for file in self._files]
        return {"dataset": self.name, "files": files, "columns": [self._column, self._time], "limit": self._limit}

    def blocks(self, start: int = 0) -> Iterator[Block]:
        position = 0
        for file in self._files:
            for block in self._file(file):
                first, last = max(start - position, 0), len(block)
                if self._limit is not None:
                    last = min(last, self._limit - position)
                position += len(block)
                if first < last:
                    yield block.slice(first, last)
                if self._limit is not None and position >= self._limit:
                    return
            self._noted.add(file.name)

    def _file(self, file: Input) -> Iterator[Block]:
        def odd(row: int, reason: str, data: bytes) -> None:
            if file.name not in self._noted:
                self._rejects.add(Reject(file.name, row, reason, data))

        before = 0
        for rows in tables(file, [name for name in (self._column, self._time) if name], odd):
            keys = _text(rows[self._column])
            times = _milliseconds(rows[self._time]) if self._time else None
            bad = {f"no {self._column}": _nulls(keys)}
            if times is not None:
                bad[f"no {self._time}"] = _nulls(times) & ~_nulls(keys)
            for reason, where in bad.items():
                for row in np.flatnonzero(where).tolist():
                    odd(before + row + 1, reason, b"")
            before += len(keys)
            good = pa.array(~np.logical_or.reduce(list(bad.values())))
            yield keyed(keys.filter(good), None if times is None else times.filter(good).to_numpy())


def _nulls(column: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return column.is_null().to_numpy(zero_copy_only=False)


def _text(column: pa.Array) -> pa.Array:
    try:
        return pc.cast(column, pa.string())
    except pa.ArrowException:
        raise UsageError(f"keys of type {column.type} can't be taken as text") from None


def _milliseconds(column: pa.Array) -> pa.Array:
    """Times in ms, int64[n]; null where there is none."""
    if pa.types.is_string(column.type):
        return pa.array([_moment(text) for text in column.to_pylist()], pa.int64())
    if pa.types.is_temporal(column.type):
        column = pc.cast(column, pa.timestamp("ms"), safe=False)
    return pc.cast(column, pa.int64(), safe=False)


def _moment(text: str | None) -> int | None:
    try:
        return None if text is None else int(text) if text.isdecimal() else iso(text)
    except ValueError:
        return None
