"""The user's work: run on tuples, and what is told of it when it raises."""

import traceback
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from unskew.apps.topology.partials import count

#: The user's work: tuples in (columns ``key``, ``count`` where the source has one, and those asked for), results out
#: (columns ``key``, ``count``): any number of rows. With a column ``cost`` (ms) they say what their key's tuples cost;
#: else the time that the work takes is measured, and shared out evenly.
Work: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]

#: What becomes of a message on whose tuple the work raises: it ends the run, or is rejected.
POLICIES = ("fail", "reject")
#: Columns that say which message a tuple is of, for rejecting it; the work doesn't see them.
PLACE = ("__partition", "__offset")
_COSTS = ["key", "cost"]


class WorkFault(Exception):
    """The user's work raised; the message says on which key, where and what, in one line."""


@dataclass(frozen=True)
class Done:
    """What the work made of a stretch of tuples.

    Attributes
    ----------
    counts : Table
        Of its results, as ``partials.count`` has them.
    costs : Table, optional
        Columns ``key`` and ``cost`` (ms) of its results, if they say what tuples cost.

    """

    counts: pa.Table
    costs: pa.Table | None


def results(work: Work, tuples: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, Done | Exception]]:
    """Stretches of the tuples, each with what the work made of it; or one tuple, with what it raised.

    If the work raises, it is run again on half of the tuples each, until those are found that it fails on: for k of n
    tuples O(k log n) calls more.
    """
    seen = tuples.select([name for name in tuples.schema.names if name not in PLACE])
    try:
        told = work(seen)
        costs = pa.Table.from_batches([told.select(_COSTS)]) if "cost" in told.schema.names else None
        done = Done(count(told, load=False), costs)
    except Exception as error:  # noqa: BLE001  whatever the user's code may raise
        if tuples.num_rows == 1:
            yield tuples, error
            return
        half = tuples.num_rows // 2
        yield from results(work, tuples.slice(0, half))
        yield from results(work, tuples.slice(half))
    else:
        yield tuples, done


def described(work: Work, error: Exception) -> str:
    """What was raised, and the line of the user's that did it."""
    file = getattr(getattr(work, "__code__", None), "co_filename", None)
    return said_of(error, {file}, getattr(work, "__name__", str(work)))


def said_of(error: Exception, files: Collection[str | None], name: str) -> str:
    """What was raised, and the last line of these files that led there; if there is none, in what (``name``) it was."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
    said = " ".join(f"{type(error).__name__}: {error}".split())
    if own:
        return f"{own[-1].filename}:{own[-1].lineno} in {own[-1].name}: {said}"
    return f"what {name} gives: {said}"
