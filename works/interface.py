"""What a work with a state per key is, vectorised over the keys of a batch."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

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
        The columns of the tuples that it reads. ``time`` (int64, ms since the epoch) is always there.
    state : pyarrow.Schema
        The state of a key, one row each. All fields are nullable: a new key's are null.
    results : pyarrow.Schema
        What it gives out, besides the key.
    identity : tuple of str
        The columns of ``results`` that tell a result of a key (and a window) from its others. A result that is
        published again overwrites itself by them.

    """

    columns: ClassVar[tuple[str, ...]] = ()
    state: pa.Schema
    results: pa.Schema
    identity: ClassVar[tuple[str, ...]] = ()

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

        Called after ``update`` where a key is at one worker, after ``merge`` where it is split.

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

    @property
    def mergeable(self) -> bool:
        """Whether states of a key can be merged, so that a grouping may split it."""
        return type(self).merge is not KeyedWork.merge
