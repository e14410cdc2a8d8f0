"""The user's work: run on tuples, and what is told of it when it raises."""

import traceback
from collections.abc import Callable, Collection, Iterator
from typing import TypeAlias

import pyarrow as pa

from unskew.apps.topology.partials import count

#: The user's work: tuples in (columns ``key``, ``count`` where the source has one, and those asked for), results out
#: (columns ``key``, ``count``): any number of rows.
Work: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]

#: What becomes of a message on whose tuple the work raises: it ends the run, or is rejected.
POLICIES = ("fail", "reject")
#: Columns that say which message a tuple is of, for rejecting it; the work doesn't see them.
PLACE = ("__partition", "__offset")


class WorkFault(Exception):
    """The user's work raised; the message says on which key, where and what, in one line."""


def results(work: Work, tuples: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, pa.Table | Exception]]:
    """Stretches of the tuples, each with the counts of the work's results; or one tuple, with what it raised.

    If the work raises, it is run again on half of the tuples each, until those are found that it fails on: for k of n
    tuples O(k log n) calls more.
    """
    seen = tuples.select([name for name in tuples.schema.names if name not in PLACE])
    try:
        done = count(work(seen), load=False)
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
