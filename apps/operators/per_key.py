"""A keyed operator from functions of one key: simpler to write, but slower."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from unskew.apps.operators.interface import KeyedOperator, Now, ResultsAndStates, has_state, result_schema
from unskew.durations import Duration, parse_milliseconds

#: A tuple, a state or a result of one key: column → value.
Row: TypeAlias = Mapping[str, Any]
Update: TypeAlias = Callable[[Any, list[Row], Row | None], tuple[Iterable[Row], Row]]


class PerKey(KeyedOperator):
    """A keyed operator that calls functions of one key.

    A key in a batch costs some 10 µs and a tuple some 2 µs, because values go from Arrow to Python and back.

    Parameters
    ----------
    update : (key, tuples, state) → (results, state)
        Called once for each key of a batch. In ``keyed_map`` the key may be None, for null. ``tuples`` are the key's
        tuples (``time`` and ``columns``) ordered by time; tuples of equal times keep their order. ``state`` is None if
        the key is new. Returns any number of results and the new state.
    state, results : pyarrow.Schema
        The columns of a state and of a result.
    merge : (states) → state, optional
        Merges several states of a key, in any order, into one. Without it, no grouping may split keys.
    on_merge : (before, after) → (results, state), optional
        Returns the results of a key whose whole state is now ``after``. ``before`` is its state at the last call, or
        None. If keys are split, these results are published instead of ``update``'s.
    on_close : (state) → results, optional
        Returns the last results of a state whose window closes or which expires.
    columns : tuple of str
        The columns of the tuples that the functions need.
    identity : tuple of str
        The columns that identify a result among the key's.
    ttl : timedelta, number (s) or str, optional
        How long a state must live after its key's last tuple.

    Raises
    ------
    UsageError
        ``ttl`` isn't a duration.
    ValueError
        A function has returned a result or a state that isn't a mapping, or that has an unknown column or a value of
        another type.

    Examples
    --------
    >>> def update(key, tuples, state):
    ...     n = (state or {"n": 0})["n"] + len(tuples)
    ...     return [{"total": n}], {"n": n}
    >>> work = PerKey(
    ...     update,
    ...     state=pa.schema([("n", pa.int64())]),
    ...     results=pa.schema([("total", pa.int64())]),
    ...     merge=lambda states: {"n": sum(state["n"] for state in states)},
    ... )
    >>> tuples = pa.RecordBatch.from_pydict({"slot": pa.array([0, 0], pa.int32()), "time": [5, 6], "key": ["a", "a"]})
    >>> results, states = work.update(tuples, pa.RecordBatch.from_pydict({"n": [40]}), Now(0, 0))
    >>> results.to_pylist(), states.to_pylist()
    ([{'slot': 0, 'total': 42}], [{'n': 42}])

    """

    def __init__(
        self,
        update: Update,
        *,
        state: pa.Schema,
        results: pa.Schema,
        merge: Callable[[list[Row]], Row] | None = None,
        on_merge: Callable[[Row | None, Row], tuple[Iterable[Row], Row]] | None = None,
        on_close: Callable[[Row], Iterable[Row]] | None = None,
        columns: tuple[str, ...] = (),
        identity: tuple[str, ...] = (),
        ttl: Duration | None = None,
    ) -> None:
        self.state, self.results, self.identity = state, results, identity
        self.columns = ("key", *(name for name in columns if name != "key"))
        self.ttl_ms = None if ttl is None else parse_milliseconds("ttl", ttl)
        self._functions = update, merge, on_merge, on_close

    @property
    def mergeable(self) -> bool:
        """Whether ``merge`` was given."""
        return self._functions[1] is not None

    @property
    def emits_on_close(self) -> bool:
        """Whether ``on_close`` was given."""
        return self._functions[3] is not None

    def update(self, tuples: pa.RecordBatch, states: pa.RecordBatch, now: Now) -> ResultsAndStates:
        """Call ``update`` for each key."""
        update = self._functions[0]
        columns = [self.column(tuples, name) for name in self.columns]
        slots, times = (tuples.column(name).to_numpy() for name in ("slot", "time"))
        order = np.lexsort((times, slots))
        plain = pa.table([tuples.column("time"), *columns], names=["time", *self.columns])
        rows = plain.take(pa.array(order)).to_pylist()
        bounds = np.searchsorted(slots[order], np.arange(states.num_rows + 1)).tolist()
        given, after = [], []
        for slot, old in enumerate(_list_rows(states)):
            mine = rows[bounds[slot] : bounds[slot + 1]]
            results, new = update(mine[0]["key"], mine, old)
            given.append(results)
            after.append(new)
        return self._results(given), self._states(after)

    def merge(self, states: pa.RecordBatch, slots: pa.Array, keys: int) -> pa.RecordBatch:
        """Call ``merge`` for each key that has several states."""
        merge = self._functions[1]
        if merge is None:
            raise NotImplementedError
        mine: list[list[Row]] = [[] for _ in range(keys)]
        for slot, state in zip(slots.to_pylist(), states.to_pylist(), strict=True):
            mine[slot].append(state)
        return self._states([merge(each) if len(each) > 1 else each[0] for each in mine])

    def on_merge(self, before: pa.RecordBatch, after: pa.RecordBatch, now: Now) -> ResultsAndStates:
        """Call ``on_merge``, if it was given, for each key."""
        settle = self._functions[2]
        if settle is None:
            return None, after
        done = [settle(old, new) for old, new in zip(_list_rows(before), after.to_pylist(), strict=True)]
        return self._results([results for results, _ in done]), self._states([state for _, state in done])

    def on_close(self, states: pa.RecordBatch, now: Now) -> pa.RecordBatch | None:
        """Call ``on_close``, if it was given, for each key."""
        finish = self._functions[3]
        return None if finish is None else self._results([finish(state) for state in states.to_pylist()])

    def _results(self, by_slot: list[Iterable[Row]]) -> pa.RecordBatch:
        slots, rows = [], []
        for slot, results in enumerate(by_slot):
            rows += results
            slots += [slot] * (len(rows) - len(slots))
        columns = _build_batch("a result", rows, self.results).columns
        return pa.RecordBatch.from_arrays([pa.array(slots, pa.int32()), *columns], schema=result_schema(self))

    def _states(self, rows: list[Row]) -> pa.RecordBatch:
        return _build_batch("a state", rows, self.state)


def _list_rows(states: pa.RecordBatch) -> list[Row | None]:
    return [row if there else None for row, there in zip(states.to_pylist(), has_state(states), strict=True)]


def _build_batch(what: str, rows: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    valid = set(schema.names)
    for row in rows:
        if not isinstance(row, Mapping) or row.keys() - valid:
            raise ValueError(f"{what} is {row!r}; valid: a mapping with {', '.join(schema.names)}")
    columns = []
    for field in schema:
        try:
            columns.append(pa.array([row.get(field.name) for row in rows], field.type))
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise ValueError(f"{field.name!r} of {what} isn't {field.type}: {error}") from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)
