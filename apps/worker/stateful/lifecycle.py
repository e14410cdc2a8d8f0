"""The lifecycle of states: from a key's first tuple through updates and merges until they close or expire.

``OperatorCalls`` calls the user's operator, checks what it returns, and turns errors into one line that names the key.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.apps.operators.errors import StateFault, describe_keys, find_cause, locate_error
from unskew.apps.operators.interface import KeyedOperator, Now, has_state
from unskew.apps.worker.stateful.store import KEY, LAST, NEVER, Due
from unskew.apps.worker.stateful.table import FetchedBuckets, StateTable
from unskew.grouping.keys import Keys, encode_keys

T = TypeVar("T")


class OperatorCalls:
    """Calls the user's keyed operator."""

    def __init__(self, work: KeyedOperator) -> None:
        self.work = work
        self._results = pa.schema([pa.field("slot", pa.int32()), *work.results])

    def update(
        self, tuples: pa.RecordBatch, states: pa.RecordBatch, now: Now, keys: pa.Array
    ) -> tuple[pa.RecordBatch | None, pa.RecordBatch]:
        """``KeyedOperator.update``; ``keys`` are the slots' k keys."""

        def call(start: int, stop: int) -> tuple[pa.RecordBatch | None, pa.RecordBatch]:
            part, own = _slice_slots(tuples, start, stop, states.num_rows), states.slice(start, stop - start)
            results, after = self.work.update(part, own, now)
            return self._fit_results(results, stop - start), self._state(after, stop - start)

        return self._call_guarded("update", call, keys)

    def merge(self, states: pa.RecordBatch, slots: pa.Array, keys: pa.Array) -> pa.RecordBatch:
        """``KeyedOperator.merge``."""
        all_slots = pa.RecordBatch.from_arrays([slots, *states.columns], ["slot", *states.schema.names])

        def call(start: int, stop: int) -> pa.RecordBatch:
            part = _slice_slots(all_slots, start, stop, len(keys))
            merged = self.work.merge(part.select(states.schema.names), part.column("slot"), stop - start)
            return self._state(merged, stop - start)

        return self._call_guarded("merge", call, keys)

    def on_merge(
        self, before: pa.RecordBatch, after: pa.RecordBatch, now: Now, keys: pa.Array
    ) -> tuple[pa.RecordBatch | None, pa.RecordBatch]:
        """``KeyedOperator.on_merge``."""

        def call(start: int, stop: int) -> tuple[pa.RecordBatch | None, pa.RecordBatch]:
            n = stop - start
            results, kept = self.work.on_merge(before.slice(start, n), after.slice(start, n), now)
            return self._fit_results(results, n), self._state(kept, n)

        return self._call_guarded("on_merge", call, keys)

    @property
    def due(self) -> Due | None:
        """``KeyedOperator.due`` for rows of a table, if the operator has it."""
        return self._due if self.work.settles_later else None

    def _due(self, rows: pa.RecordBatch) -> NDArray[np.int64]:
        keys = rows.column(KEY)
        states = rows.select(self.work.state.names)

        def call(start: int, stop: int) -> NDArray[np.int64]:
            moments = self.work.due(states.slice(start, stop - start))
            if moments is None:
                return np.full(stop - start, NEVER)
            if len(moments) != stop - start:
                raise ValueError(f"due gives {len(moments)} moments of {stop - start} states")
            return moments.cast(pa.int64()).fill_null(NEVER).to_numpy()

        return self._call_guarded("due", call, keys)

    def on_close(self, states: pa.RecordBatch, now: Now, keys: pa.Array) -> pa.RecordBatch | None:
        """``KeyedOperator.on_close``."""

        def call(start: int, stop: int) -> pa.RecordBatch | None:
            return self._fit_results(self.work.on_close(states.slice(start, stop - start), now), stop - start)

        return self._call_guarded("on_close", call, keys)

    def upgrade(self, rows: pa.RecordBatch) -> pa.RecordBatch | None:
        """``KeyedOperator.upgrade`` for rows with states of an older schema, or None if it is unknown."""
        old = pa.schema([field for field in rows.schema if field.name not in (KEY, LAST)])
        if old not in self.work.previous_schemas:
            return None
        keys, states = rows.column(KEY), rows.select(old.names)

        def call(start: int, stop: int) -> pa.RecordBatch:
            return self._state(self.work.upgrade(states.slice(start, stop - start)), stop - start)

        new = (
            self._call_guarded("upgrade", call, keys)
            if len(keys)
            else pa.RecordBatch.from_pylist([], schema=self.work.state)
        )
        schema = pa.schema([rows.schema.field(KEY), rows.schema.field(LAST), *self.work.state])
        return pa.RecordBatch.from_arrays([keys, rows.column(LAST), *new.columns], schema=schema)

    def _call_guarded(self, method: str, call: Callable[[int, int], T], keys: pa.Array) -> T:
        try:
            return call(0, len(keys))
        except StateFault:  # names its keys; searching for them may take long
            raise
        except Exception as error:  # noqa: BLE001  whatever the user's code may raise
            start, stop, raised = _narrow_failure(call, 0, len(keys), error)
            reason = locate_error(raised, _find_files(self.work), method)
            which, cause = describe_keys(keys.slice(start, stop - start)), find_cause(raised)
            raise StateFault(f"the operator {type(self.work).__name__} failed on {which} ({reason})") from cause

    def _state(self, states: pa.RecordBatch, keys: int) -> pa.RecordBatch:
        return _fit_batch(states, self.work.state, "states", keys)

    def _fit_results(self, results: pa.RecordBatch | None, keys: int) -> pa.RecordBatch | None:
        if results is None or not results.num_rows:
            return None
        fitted = _fit_batch(results, self._results, "results", None)
        slots = fitted.column("slot").to_numpy(zero_copy_only=False)
        if fitted.column("slot").null_count or slots.min() < 0 or slots.max() >= keys:
            raise ValueError(f"results have slots that are none; valid: 0 to {keys - 1}")
        return fitted


def _find_files(work: KeyedOperator) -> set[str]:
    """The operator's source files."""
    classes = [kind for kind in type(work).__mro__ if issubclass(kind, KeyedOperator) and kind is not KeyedOperator]
    functions = [code for kind in classes for each in vars(kind).values() if (code := getattr(each, "__code__", None))]
    return {code.co_filename for code in functions}


def _slice_slots(tuples: pa.RecordBatch, start: int, stop: int, keys: int) -> pa.RecordBatch:
    """The tuples of the slots from ``start`` to ``stop``, with their slots counted from ``start``."""
    if (start, stop) == (0, keys):
        return tuples
    slots = tuples.column("slot").to_numpy()
    part = tuples.filter(pa.array((slots >= start) & (slots < stop)))
    moved = pa.array((part.column("slot").to_numpy() - start).astype(np.int32))
    return part.set_column(part.schema.get_field_index("slot"), "slot", moved)


def _narrow_failure(
    call: Callable[[int, int], object], start: int, stop: int, error: Exception
) -> tuple[int, int, Exception]:
    """The fewest neighbouring keys on which a call fails, by bisection: methods keep nothing between calls."""
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


def _fit_batch(batch: pa.RecordBatch, schema: pa.Schema, what: str, rows: int | None) -> pa.RecordBatch:
    """Cast a batch to a schema's types.

    Raises ``ValueError`` if the batch doesn't fit the schema.
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


_LONG_AGO = np.iinfo(np.int64).min


class Lifecycle:
    """Creates, updates, merges and closes the states of one operator in one table.

    A state expires ``ttl_ms`` after its key's last tuple. ``results`` are the operator's: the window, and a batch with
    the key and the operator's columns. ``finished`` is the number of states closed or expired, and ``merged`` that of
    keys whose fragments were merged.
    """

    def __init__(self, table: StateTable, calls: OperatorCalls, ttl_ms: int | None = None) -> None:
        self.table = table
        self.results: list[tuple[int, pa.RecordBatch]] = []
        self.finished = self.merged = 0
        self._calls = calls
        self._ttl = ttl_ms

    def update(
        self, window: int, keys: Keys, tuples: pa.RecordBatch, now: Now, *, over_ms: int | None, whole: bool
    ) -> None:
        """Update the states of k keys with the tuples of a window, which have ``time`` and the operator's columns.

        States that had expired by ``over_ms`` are closed first, and their keys start anew. If the keys are ``whole``,
        not split, results are published.
        """
        for own, part in self._portions(window, keys, tuples):
            self._update(window, own, part, now, over_ms=over_ms, whole=whole)

    def _update(
        self, window: int, keys: Keys, tuples: pa.RecordBatch, now: Now, *, over_ms: int | None, whole: bool
    ) -> None:
        touched, before, last = self._begin(window, keys, over_ms, now)
        given = pa.RecordBatch.from_arrays([pa.array(keys.codes), *tuples.columns], ["slot", *tuples.schema.names])
        results, after = self._calls.update(given, before, now, keys.distinct)
        if whole:
            self._publish(window, keys.distinct, results)
            results, after = self._calls.on_merge(before, after, now, keys.distinct)
            self._publish(window, keys.distinct, results)
        np.maximum.at(last, keys.codes, tuples.column("time").to_numpy())
        self.table.put(window, touched, last, after)

    def merge(self, window: int, fragments: pa.RecordBatch, now: Now, over_ms: int | None) -> None:
        """Merge fragments (rows of the table's schema, several per key) with the states."""
        for own, part in self._portions(window, encode_keys(fragments.column(KEY)), fragments):
            self._merge(window, own, part, now, over_ms)

    def _merge(self, window: int, keys: Keys, fragments: pa.RecordBatch, now: Now, over_ms: int | None) -> None:
        self.merged += len(keys.distinct)
        touched, before, last = self._begin(window, keys, over_ms, now)
        old = has_state(before)
        states = pa.concat_batches([before.filter(pa.array(old)), fragments.select(self.table.state.names)])
        slots = np.concatenate([np.flatnonzero(old).astype(np.int32), keys.codes])
        merged = self._calls.merge(states, pa.array(slots), keys.distinct)
        results, after = self._calls.on_merge(before, merged, now, keys.distinct)
        self._publish(window, keys.distinct, results)
        np.maximum.at(last, keys.codes, fragments.column(LAST).to_numpy())
        self.table.put(window, touched, last, after)

    def close(self, window: int, now: Now) -> None:
        """Close all states of a window."""
        for rows in self.table.take(window):
            self._close_states(window, rows, now)

    def expire(self, at_ms: int, now: Now, *, prompt: bool) -> None:
        """Close expired states, and settle states that are due. ``prompt`` is as in ``StateTable.expire``."""

        def settle(rows: pa.RecordBatch) -> pa.RecordBatch:
            keys, states = rows.column(KEY), rows.select(self.table.state.names)
            results, kept = self._calls.on_merge(states, states, now, keys)
            self._publish(0, keys, results)
            return kept

        for rows in self.table.expire(at_ms, settle, prompt=prompt):
            self._close_states(0, rows, now)

    def _portions(self, window: int, keys: Keys, rows: pa.RecordBatch) -> Iterator[tuple[Keys, pa.RecordBatch]]:
        """Keys and their rows, in the portions of ``StateTable.portions``."""
        for chosen in self.table.portions(window, keys):
            if chosen.all():
                yield keys, rows
                continue
            mine = chosen[keys.codes]
            positions = (np.cumsum(chosen) - 1).astype(np.int32)
            own = Keys(positions[keys.codes[mine]], keys.hashes[chosen], keys.distinct.filter(pa.array(chosen)))
            yield own, rows.filter(pa.array(mine))

    def _begin(
        self, window: int, keys: Keys, over_ms: int | None, now: Now
    ) -> tuple[FetchedBuckets, pa.RecordBatch, NDArray[np.int64]]:
        """The keys' buckets, states (null: none), and times of their last tuple."""
        touched = self.table.touch(window, keys)
        last = np.full(len(touched.at), _LONG_AGO)
        there = touched.at >= 0
        last[there] = touched.rows.column(LAST).to_numpy()[touched.at[there]]
        if self._ttl is not None and over_ms is not None:
            over = there & (last + self._ttl * there <= over_ms)
            if over.any():
                self._close_states(window, touched.rows.take(pa.array(touched.at[over])), now)
                there &= ~over
                last[over] = _LONG_AGO
        at = pa.array(touched.at, mask=~there)
        return touched, touched.rows.select(self.table.state.names).take(at), last

    def _close_states(self, window: int, rows: pa.RecordBatch, now: Now) -> None:
        if rows.num_rows:
            keys = rows.column(KEY)
            self.finished += rows.num_rows
            self._publish(window, keys, self._calls.on_close(rows.select(self.table.state.names), now, keys))

    def _publish(self, window: int, keys: pa.Array, results: pa.RecordBatch | None) -> None:
        if results is not None:
            of = keys.take(results.column("slot"))
            names = results.schema.names[1:]
            self.results.append((window, pa.RecordBatch.from_arrays([of, *results.columns[1:]], [KEY, *names])))
