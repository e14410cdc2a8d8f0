"""What a work with a state per key is, vectorised over the keys of a batch."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Now:
    """The time of a batch; a replay repeats it.

    Attributes
    ----------
    batch_ms : int
        The batch's own time, ms since the epoch.
    watermark_ms : int
        No tuple that is still to come is older, ms since the epoch: event time less the lateness, or the batch's time.

    """

    batch_ms: int
    watermark_ms: int


class KeyedWork(ABC):
    """A work with a state per key.

    A worker calls ``update`` once a batch, with all its tuples and the states of their keys. Rows of ``states`` are
    keys; a *slot* is the number of such a row, and says in tuples and results whose they are. An instance keeps
    nothing between calls: it travels to the tasks, and what it remembers is the state.

    Attributes
    ----------
    columns : tuple of str
        The columns of the tuples that it reads; the key's own is ``key``. ``time`` (int64, ms since the epoch) is
        always there.
    types : mapping of str to pyarrow.DataType
        What ``column`` casts them to; a column that isn't named stays as it comes.
    state : pyarrow.Schema
        The state of a key, one row each. All fields are nullable: a new key's are null.
    results : pyarrow.Schema
        What it gives out, besides the key.
    identity : tuple of str
        The columns of ``results`` that tell a result of a key (and a window) from its others. A result that is
        published again overwrites itself by them.
    ttl_ms : int or None
        How long a state must live after its key's last tuple, by the watermark; then it may leave, by ``finish``. None:
        whoever runs the work decides.
    parameters : mapping of str to a number or a string
        What the meaning of a state depends on besides its schema: states that were made with others aren't this work's,
        and a checkpoint that has them is refused.
    by_batch : bool
        Whether it matters to the states how the tuples are cut into batches. If not, and that is the rule, a key's
        state after two batches is that after both in one.

    """

    columns: tuple[str, ...] = ()
    types: Mapping[str, pa.DataType] = {}
    state: pa.Schema
    results: pa.Schema
    identity: tuple[str, ...] = ()
    ttl_ms: int | None = None
    parameters: Mapping[str, int | float | str] = {}
    by_batch: bool = False

    @abstractmethod
    def update(
        self, tuples: pa.RecordBatch, states: pa.RecordBatch, now: Now
    ) -> tuple[pa.RecordBatch | None, pa.RecordBatch]:
        """Take in the tuples of a batch.

        Parameters
        ----------
        tuples : RecordBatch
            n tuples: ``slot`` (int32), ``time`` (int64, ms) and ``columns``; those of one source are in its order.
        states : RecordBatch
            k keys, each of which has a tuple: columns of ``state``.
        now : Now
            The time of the batch.

        Returns
        -------
        results : RecordBatch or None
            Any number of rows: ``slot`` (int32) and the columns of ``results``. Where the grouping splits keys these
            are not published, as a worker doesn't know the whole of a key: what ``settle`` and ``finish`` give is.
        states : RecordBatch
            The k new states, in the order of the old ones.

        """

    def merge(self, states: pa.RecordBatch, slots: pa.Array, keys: int) -> pa.RecordBatch:
        """Make one state of all the states of a key: associative, commutative, the order of rows doesn't matter.

        A work without it can't be split: only groupings that keep a key at one worker run it.

        Parameters
        ----------
        states : RecordBatch
            n states, none of them null throughout.
        slots : int32[n]
            Whose they are, 0 to ``keys`` − 1; each key has at least one.
        keys : int
            k, the number of keys.

        Returns
        -------
        RecordBatch
            k states, in the order of the slots.

        """
        raise NotImplementedError

    def settle(
        self, before: pa.RecordBatch, after: pa.RecordBatch, now: Now
    ) -> tuple[pa.RecordBatch | None, pa.RecordBatch]:
        """What is certain of keys that have changed, now that their whole state is known.

        Called after ``update`` where a key is at one worker, after ``merge`` where it is split: then all workers have
        handed out what they had of the key, so that no tuple older than the watermark is missing.

        Parameters
        ----------
        before, after : RecordBatch
            The k keys' states, as of the last time and now; a key that is new was null before.
        now : Now
            The time of the batch.

        Returns
        -------
        results : RecordBatch or None
            Any number of rows: ``slot`` and the columns of ``results``.
        states : RecordBatch
            The k states that are kept.

        """
        return None, after

    def finish(self, states: pa.RecordBatch, now: Now) -> pa.RecordBatch | None:
        """What leaves when the window closes or the states expire: ``slot`` and the columns of ``results``."""
        return None

    def agree(self, one: pa.RecordBatch, other: pa.RecordBatch) -> bool:
        """Whether two lots of k states may have come of the same tuples: they are equal (NaN is NaN).

        A summary whose state depends on the order of merges says here what its error bounds allow. It is for tests
        (``unskew check-work``): no run calls it.
        """
        return one.equals(other) or (one.schema == other.schema and repr(one.to_pylist()) == repr(other.to_pylist()))

    def column(self, tuples: pa.RecordBatch, name: str) -> pa.Array:
        """A column of the tuples, decoded if it is a dictionary's, as ``types`` says.

        Raises
        ------
        ValueError
            It can't be cast; the message names the column.

        """
        array = tuples.column(name)
        if isinstance(array, pa.DictionaryArray):
            array = array.dictionary_decode()
        try:
            return array.cast(self.types.get(name, array.type))
        except pa.ArrowException as error:
            said = " ".join(str(error).split())
            raise ValueError(f"column {name!r} is {array.type}, not {self.types[name]}: {said}") from None

    @property
    def mergeable(self) -> bool:
        """Whether states of a key can be merged, so that a grouping may split it."""
        return type(self).merge is not KeyedWork.merge

    @property
    def tells_at_end(self) -> bool:
        """Whether ``finish`` may tell something; if not, a run that ends needn't wait until states do."""
        return type(self).finish is not KeyedWork.finish
