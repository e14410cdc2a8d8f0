"""Calls of a keyed work: what it gives is checked, and what goes wrong is one line that names the key."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pyarrow as pa

from unskew.apps.topology.work import said_of
from unskew.works.interface import KeyedWork, Now

T = TypeVar("T")


class StateFault(Exception):
    """A keyed work raised, or gave what it must not; the message says on which key, where and what, in one line."""


class Calls:
    """A keyed work as the engine calls it.

    Parameters
    ----------
    work : KeyedWork
        The user's.

    """

    def __init__(self, work: KeyedWork) -> None:
        self.work = work
        self._results = pa.schema([pa.field("slot", pa.int32()), *work.results])

    def update(
        self, tuples: pa.RecordBatch, states: pa.RecordBatch, now: Now, keys: pa.Array
    ) -> tuple[pa.RecordBatch | None, pa.RecordBatch]:
        """``KeyedWork.update``; ``keys`` (k) are those of the slots."""

        def call(start: int, stop: int) -> tuple[pa.RecordBatch | None, pa.RecordBatch]:
            part, own = _of(tuples, start, stop, states.num_rows), states.slice(start, stop - start)
            results, after = self.work.update(part, own, now)
            return self._told(results, stop - start), self._state(after, stop - start)

        return self._guarded("update", call, keys)

    def merge(self, states: pa.RecordBatch, slots: pa.Array, keys: pa.Array) -> pa.RecordBatch:
        """``KeyedWork.merge``."""
        all_slots = pa.RecordBatch.from_arrays([slots, *states.columns], ["slot", *states.schema.names])

        def call(start: int, stop: int) -> pa.RecordBatch:
            part = _of(all_slots, start, stop, len(keys))
            merged = self.work.merge(part.select(states.schema.names), part.column("slot"), stop - start)
            return self._state(merged, stop - start)

        return self._guarded("merge", call, keys)

    def settle(
        self, before: pa.RecordBatch, after: pa.RecordBatch, now: Now, keys: pa.Array
    ) -> tuple[pa.RecordBatch | None, pa.RecordBatch]:
        """``KeyedWork.settle``."""

        def call(start: int, stop: int) -> tuple[pa.RecordBatch | None, pa.RecordBatch]:
            n = stop - start
            results, kept = self.work.settle(before.slice(start, n), after.slice(start, n), now)
            return self._told(results, n), self._state(kept, n)

        return self._guarded("settle", call, keys)

    def finish(self, states: pa.RecordBatch, now: Now, keys: pa.Array) -> pa.RecordBatch | None:
        """``KeyedWork.finish``."""

        def call(start: int, stop: int) -> pa.RecordBatch | None:
            return self._told(self.work.finish(states.slice(start, stop - start), now), stop - start)

        return self._guarded("finish", call, keys)

    def _guarded(self, method: str, call: Callable[[int, int], T], keys: pa.Array) -> T:
        try:
            return call(0, len(keys))
        except Exception as error:  # noqa: BLE001  whatever the user's code may raise
            start, stop, raised = _narrowed(call, 0, len(keys), error)
            said = said_of(raised, _files(self.work), method)
            whose = f"key {keys[start].as_py()!r}" + (f" and {stop - start - 1} others" if stop - start > 1 else "")
            raise StateFault(f"the work {type(self.work).__name__} failed on {whose} ({said})") from raised

    def _state(self, states: pa.RecordBatch, keys: int) -> pa.RecordBatch:
        return _fitted(states, self.work.state, "states", keys)

    def _told(self, results: pa.RecordBatch | None, keys: int) -> pa.RecordBatch | None:
        if results is None or not results.num_rows:
            return None
        fitted = _fitted(results, self._results, "results", None)
        slots = fitted.column("slot").to_numpy(zero_copy_only=False)
        if fitted.column("slot").null_count or slots.min() < 0 or slots.max() >= keys:
            raise ValueError(f"results have slots that are none; valid: 0 to {keys - 1}")
        return fitted


def _files(work: KeyedWork) -> set[str]:
    """The files that the work is written in."""
    classes = [kind for kind in type(work).__mro__ if issubclass(kind, KeyedWork) and kind is not KeyedWork]
    functions = [code for kind in classes for each in vars(kind).values() if (code := getattr(each, "__code__", None))]
    return {code.co_filename for code in functions}


def _of(tuples: pa.RecordBatch, start: int, stop: int, keys: int) -> pa.RecordBatch:
    """Tuples of the slots from ``start`` to ``stop``, their slots counted from there."""
    if (start, stop) == (0, keys):
        return tuples
    slots = tuples.column("slot").to_numpy()
    part = tuples.filter(pa.array((slots >= start) & (slots < stop)))
    moved = pa.array((part.column("slot").to_numpy() - start).astype(np.int32))
    return part.set_column(part.schema.get_field_index("slot"), "slot", moved)


def _narrowed(
    call: Callable[[int, int], object], start: int, stop: int, error: Exception
) -> tuple[int, int, Exception]:
    """The fewest keys in a row that it fails on, found by halving: a method may be called again, it keeps nothing."""
    while stop - start > 1:
        half = (start + stop) // 2
        for part in ((start, half), (half, stop)):
            try:
                call(*part)
            except Exception as raised:  # noqa: BLE001
                (start, stop), error = part, raised
                break
        else:
            break
    return start, stop, error


def _fitted(batch: pa.RecordBatch, schema: pa.Schema, what: str, rows: int | None) -> pa.RecordBatch:
    """A batch as its schema says.

    Raises
    ------
    ValueError
        It doesn't fit.

    """
    if not isinstance(batch, pa.RecordBatch):
        raise ValueError(f"{what} are {type(batch).__name__}; valid: RecordBatch")  # noqa: TRY004
    if batch.schema.names != schema.names:
        raise ValueError(f"{what} have the columns {', '.join(batch.schema.names)}; valid: {', '.join(schema.names)}")
    if rows is not None and batch.num_rows != rows:
        raise ValueError(f"{what} have {batch.num_rows} rows for {rows} keys; valid: one a key, in the slots' order")
    if batch.schema.types == schema.types:
        return pa.RecordBatch.from_arrays(batch.columns, schema=schema)
    columns = []
    for column, field in zip(batch.columns, schema, strict=True):
        try:
            columns.append(column.cast(field.type))
        except pa.ArrowException:
            raise ValueError(f"{what} have the column {field.name!r} as {column.type}; valid: {field.type}") from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)
