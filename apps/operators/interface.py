"""The interface of keyed operators, vectorised over the keys of a batch.

``KeyedOperator`` is the interface. ``MergeableOperator`` is a base for operators whose states are only ever merged.
``Summary`` is a base for operators whose results are a function of the state.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.errors import UsageError
from unskew.grouping.arguments import check_choice

#: The results of a method, if any, and the states after it.
ResultsAndStates: TypeAlias = tuple[pa.RecordBatch | None, pa.RecordBatch]


@dataclass(frozen=True)
class Now:
    """The time of a batch, which a replay repeats.

    Attributes
    ----------
    batch_ms : int
        The batch's time, ms since the epoch.
    watermark_ms : int
        A lower bound on the times of all tuples to come, ms since the epoch: in event time the latest time less the
        lateness, in batch time the batch's time. If states live for windows, it is the start of the first window that
        isn't closed then.

    """

    batch_ms: int
    watermark_ms: int


class KeyedOperator(ABC):
    """A keyed operator: your code with a state per key, vectorised over the keys of a batch.

    A worker calls ``update`` once per batch, with all its tuples and the states of their keys (or with some of the keys
    at a time, if their states exceed 256 MiB). Each row of ``states`` is a key, and its number is the key's *slot* in
    tuples and results. Keep nothing in the instance between calls, because Spark sends copies of it to the tasks:
    whatever must be remembered belongs in the states.

    Attributes
    ----------
    columns : tuple of str
        The tuples' columns that it reads. The key is ``key``, and may be null. ``time`` (int64, ms) is always there.
    types : mapping of str to pyarrow.DataType
        The types to which ``column`` casts columns. Other columns keep theirs.
    state : pyarrow.Schema
        The columns of a key's state, which is one row. A new key's state is all null.
    results : pyarrow.Schema
        The columns of a result, besides the key.
    identity : tuple of str
        The columns of ``results`` that distinguish results of a key and window. A result overwrites an earlier one with
        equal identity.
    ttl_ms : int or None
        How long a state lives at least after its key's last tuple, by the watermark. ``on_close`` is called when it
        expires. None: the run's options decide.
    parameters : mapping of str to a number or a string
        What a state's meaning depends on. A run refuses a checkpoint whose states were made with other parameters.
    previous_schemas : tuple of pyarrow.Schema
        The schemas that ``state`` had in earlier versions of the operator. A run takes over a checkpoint with such
        states by ``upgrade``, and refuses one with any other schema.
    by_batch : bool
        Whether states depend on how the tuples are cut into batches.
    local_state : bool
        Whether a worker's state of a key is complete by itself, like a cache's. Then any grouping runs the operator, a
        split key's states are never merged, and all results of ``update`` are published.

    Examples
    --------
    An operator that counts each key's tuples. Without ``merge``, it runs only if each key stays at one worker:

    >>> class Count(KeyedOperator):
    ...     state = pa.schema([("n", pa.int64())])
    ...     results = pa.schema([("tuples", pa.int64())])
    ...
    ...     def update(self, tuples, states, now):
    ...         here = np.bincount(tuples.column("slot"), minlength=states.num_rows)
    ...         n = pa.array(states.column("n").fill_null(0).to_numpy() + here)
    ...         slots = pa.array(np.arange(states.num_rows, dtype=np.int32))
    ...         results = pa.RecordBatch.from_arrays([slots, n], names=["slot", "tuples"])
    ...         return results, pa.RecordBatch.from_arrays([n], schema=self.state)
    >>> tuples = pa.RecordBatch.from_pydict({"slot": pa.array([0, 1, 0], pa.int32()), "time": [5, 6, 7]})
    >>> states = pa.RecordBatch.from_pydict({"n": [40, None]})
    >>> results, states = Count().update(tuples, states, Now(batch_ms=7, watermark_ms=7))
    >>> results.to_pylist(), states.to_pylist()
    ([{'slot': 0, 'tuples': 42}, {'slot': 1, 'tuples': 1}], [{'n': 42}, {'n': 1}])

    """

    columns: tuple[str, ...] = ()
    types: Mapping[str, pa.DataType] = {}
    state: pa.Schema
    results: pa.Schema
    identity: tuple[str, ...] = ()
    ttl_ms: int | None = None
    parameters: Mapping[str, int | float | str] = {}
    previous_schemas: tuple[pa.Schema, ...] = ()
    by_batch: bool = False
    local_state: bool = False

    @abstractmethod
    def update(self, tuples: pa.RecordBatch, states: pa.RecordBatch, now: Now) -> ResultsAndStates:
        """Process the tuples of a batch.

        Parameters
        ----------
        tuples : RecordBatch
            n tuples: ``slot`` (int32), ``time`` (int64, ms) and ``columns``. Tuples of one source are in its order. A
            string or binary column above 2 GiB has Arrow's large type.
        states : RecordBatch
            k states with the columns of ``state``. Each of their keys has a tuple.
        now : Now
            The time of the batch.

        Returns
        -------
        results : RecordBatch or None
            Any number of rows: ``slot`` (int32) and the columns of ``results``. If the grouping splits keys, they
            aren't published, because a worker doesn't have a key's whole state. The results of ``on_merge`` and
            ``on_close`` are.
        states : RecordBatch
            The k new states, in the order of the old ones.

        Raises
        ------
        ValueError
            A column can't be cast to its type in ``types``: see ``column``, with which this package's operators read
            columns.

        """

    def merge(self, states: pa.RecordBatch, slots: pa.Array, keys: int) -> pa.RecordBatch:
        """Merge all states of a key into one. It must be associative and commutative.

        An operator without ``merge`` runs only with groupings that keep a key at one worker.

        Parameters
        ----------
        states : RecordBatch
            n states. In each of them at least one column isn't null.
        slots : int32[n]
            The key of each state, 0 to ``keys`` − 1. Each key has at least one state.
        keys : int
            k, the number of keys.

        Returns
        -------
        RecordBatch
            k states, in the order of the slots.

        """
        raise NotImplementedError

    def on_merge(self, before: pa.RecordBatch, after: pa.RecordBatch, now: Now) -> ResultsAndStates:
        """Return the results of keys whose whole states have changed.

        At this call a key's state is whole. It follows ``update`` if the key is at one worker, and ``merge`` if keys
        are split: all workers have then sent their fragments, so no tuple older than the watermark is missing. If
        states live for a TTL, it is also called for keys without a tuple that are ``due``, with equal states before and
        after.

        Parameters
        ----------
        before, after : RecordBatch
            The k keys' states after the last call, and now. A new key's state before is null.
        now : Now
            The time of the batch.

        Returns
        -------
        results : RecordBatch or None
            Any number of rows: ``slot`` and the columns of ``results``.
        states : RecordBatch
            The k states to keep.

        """
        return None, after

    def due(self, states: pa.RecordBatch) -> pa.Array | None:
        """Return the watermark from which ``on_merge`` must be called for a key even without a tuple.

        Parameters
        ----------
        states : RecordBatch
            k states that are kept.

        Returns
        -------
        int64[k] or None
            ms since the epoch. Null: not due before expiry. None: no state is ever due.

        """
        return None

    def on_close(self, states: pa.RecordBatch, now: Now) -> pa.RecordBatch | None:
        """Return the last results of states whose window closes or which expire, with the columns of ``update``'s."""
        return None

    def upgrade(self, states: pa.RecordBatch) -> pa.RecordBatch:
        """Convert states of an older schema to the current one. By default, new columns are null.

        Called once per state, in the first batch of a run on a checkpoint of an older version.

        Parameters
        ----------
        states : RecordBatch
            k states, of one of the schemas in ``previous_schemas``.

        Returns
        -------
        RecordBatch
            k states, in the order of the old ones.

        Raises
        ------
        ValueError
            The default can't convert the states: an old column is gone, or has another type.

        """
        for field in states.schema:
            if field not in [*self.state]:
                kept = f"{field.name} {field.type}"
                raise ValueError(f"the older state's column {kept} isn't in today's: write an upgrade that says how")
        there = states.schema.names
        columns = [states.column(f.name) if f.name in there else pa.nulls(states.num_rows, f.type) for f in self.state]
        return pa.RecordBatch.from_arrays(columns, schema=self.state)

    def equivalent(self, one: pa.RecordBatch, other: pa.RecordBatch) -> bool:
        """Whether two batches of k states may come from the same tuples. By default they must be equal (NaN is NaN).

        An operator whose states depend on the order of merges overrides this according to its error bounds. Only tests
        and ``unskew check-work`` call it.
        """
        return one.equals(other) or (one.schema == other.schema and repr(one.to_pylist()) == repr(other.to_pylist()))

    def column(self, tuples: pa.RecordBatch, name: str) -> pa.Array:
        """A column of the tuples, decoded if it is dictionary-encoded, and cast to its type in ``types``.

        Raises
        ------
        ValueError
            The column can't be cast; the message names it.

        """
        array = tuples.column(name)
        if isinstance(array, pa.DictionaryArray):
            array = array.dictionary_decode()
        try:
            return array.cast(self.types.get(name, array.type))
        except pa.ArrowException as error:
            reason = " ".join(str(error).split())
            raise ValueError(f"column {name!r} is {array.type}, not {self.types[name]}: {reason}") from None

    @property
    def mergeable(self) -> bool:
        """Whether a key's states can be merged, so that a grouping may split the key."""
        return type(self).merge is not KeyedOperator.merge

    @property
    def emits_on_close(self) -> bool:
        """Whether ``on_close`` may return results. If not, a run that ends needn't wait until its states expire."""
        return type(self).on_close is not KeyedOperator.on_close

    @property
    def settles_later(self) -> bool:
        """Whether ``on_merge`` may return results of keys without a tuple."""
        return type(self).due is not KeyedOperator.due


#: When a summary is published: at each change of its key, or when its window closes or its state expires.
WHEN = ("change", "end")


class MergeableOperator(KeyedOperator):
    """An operator that turns each tuple into a small state (``to_state``) and merges states (``merge``).

    Its ``update`` merges too. So if ``merge`` is associative and commutative, states don't depend on batches and
    workers.

    Examples
    --------
    Each key's largest amount. A tuple's state is its amount, and two states merge into the larger one:

    >>> class Largest(MergeableOperator):
    ...     columns = ("amount",)
    ...     state = results = pa.schema([("largest", pa.int64())])
    ...
    ...     def to_state(self, tuples):
    ...         return pa.RecordBatch.from_arrays([tuples.column("amount")], schema=self.state)
    ...
    ...     def merge(self, states, slots, keys):
    ...         rows = pa.table([slots, states.column("largest")], names=["slot", "largest"])
    ...         largest = rows.group_by("slot").aggregate([("largest", "max")]).sort_by("slot").column("largest_max")
    ...         return pa.RecordBatch.from_arrays([largest.combine_chunks()], schema=self.state)

    Slot 0 is a key whose largest amount so far is 40, and slot 1 a new key:

    >>> slots = pa.array([0, 1, 0], pa.int32())
    >>> tuples = pa.RecordBatch.from_pydict({"slot": slots, "time": [5, 6, 7], "amount": [3, 9, 42]})
    >>> states = pa.RecordBatch.from_pydict({"largest": pa.array([40, None])})
    >>> _, states = Largest().update(tuples, states, Now(batch_ms=7, watermark_ms=7))
    >>> states.to_pylist()
    [{'largest': 42}, {'largest': 9}]

    """

    @abstractmethod
    def to_state(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        """The state of each tuple alone: n rows of ``state``."""

    @abstractmethod
    def merge(self, states: pa.RecordBatch, slots: pa.Array, keys: int) -> pa.RecordBatch:
        """As ``KeyedOperator.merge``: every key has at least one state."""

    def update(self, tuples: pa.RecordBatch, states: pa.RecordBatch, now: Now) -> ResultsAndStates:
        """Merge the tuples' states into the old ones."""
        old = has_state(states)
        slots = np.concatenate([np.flatnonzero(old), tuples.column("slot").to_numpy()]).astype(np.int32)
        rows = concat_batches([states.filter(pa.array(old)), self.to_state(tuples)], self.state)
        return None, self.merge(rows, pa.array(slots), states.num_rows)


class Summary(KeyedOperator):
    """An operator whose result is a function of the key's state.

    Parameters
    ----------
    when : str
        ``change``: each change of the key publishes the result, which overwrites the earlier one. ``end``: it is
        published once, when the window closes or the state expires.

    Raises
    ------
    ValueError
        ``when`` is neither.

    Examples
    --------
    >>> from unskew.apps.operators import Statistics
    >>> slots = pa.array([0, 0], pa.int32())
    >>> tuples = pa.RecordBatch.from_pydict({"slot": slots, "time": [5, 6], "value": [2.0, 4.0]})
    >>> now = Now(batch_ms=6, watermark_ms=6)
    >>> for when in WHEN:
    ...     work = Statistics(when=when)
    ...     state = work.merge(work.to_state(tuples), slots, keys=1)
    ...     settled, finished = work.on_merge(state, state, now)[0], work.on_close(state, now)
    ...     print(when, [None if each is None else each.column("mean").to_pylist() for each in (settled, finished)])
    change [[3.0], None]
    end [None, [3.0]]

    """

    def __init__(self, when: str = "change") -> None:
        self.when = check_choice("when", when, WHEN)

    @property
    def emits_on_close(self) -> bool:
        """Whether results are published at the end."""
        return self.when == "end"

    @abstractmethod
    def result(self, states: pa.RecordBatch) -> pa.RecordBatch:
        """The results for k states: ``slot`` and the columns of ``results``."""

    def on_merge(self, before: pa.RecordBatch, after: pa.RecordBatch, now: Now) -> ResultsAndStates:
        """Return the results of changed keys, unless results are published at the end."""
        return (self.result(after) if self.when == "change" else None), after

    def on_close(self, states: pa.RecordBatch, now: Now) -> pa.RecordBatch | None:
        """Return the results, unless they were published at each change."""
        return self.result(states) if self.when == "end" else None


def require_operator(work: Any) -> None:
    """Raise ``UsageError`` if it isn't a keyed operator, but its class, for instance."""
    if isinstance(work, KeyedOperator):
        return
    if isinstance(work, type) and issubclass(work, KeyedOperator):
        raise UsageError(f"work is the class {work.__name__}; valid: {work.__name__}(…), an instance of it")
    raise UsageError(
        f"work is {work!r}; valid: one of unskew.operators, or an instance of your own subclass of KeyedOperator"
    )


def has_state(states: pa.RecordBatch) -> NDArray[np.bool_]:
    """Which of k keys have a state, bool[k]: one whose columns aren't all null."""
    there = np.zeros(states.num_rows, np.bool_)
    for column in states.columns:
        there |= column.is_valid().to_numpy(zero_copy_only=False)
    return there


def concat_batches(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.concat_arrays([batch.column(name) for batch in batches]) for name in schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def make_results(work: KeyedOperator, slots: pa.Array, *columns: pa.Array) -> pa.RecordBatch:
    """A batch of results: the slots, and the columns of ``work.results`` in that order, cast to their types."""
    arrays = [column.cast(field.type) for column, field in zip(columns, work.results, strict=True)]
    return pa.RecordBatch.from_arrays([slots, *arrays], schema=result_schema(work))


def result_schema(work: KeyedOperator) -> pa.Schema:
    """The schema of the results of an operator's methods: the slot, and the columns of ``work.results``."""
    return pa.schema([("slot", pa.int32()), *work.results])
