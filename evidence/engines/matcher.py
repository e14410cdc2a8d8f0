"""Which consumers a record of the jobs after ShuffleBench goes to: for Python, what ``Matcher.java`` is for Java.

The bounds of all rules cut the circle of hashes into segments. In each of them the same rules match all hashes. The
benchmark writes the segments into a folder, and programs map its files into memory (little-endian):

* ``bounds``, int64[n]: the first hash of each segment, ascending from 0,
* ``offsets``, int32[n + 1], and ``consumers``, int32: those of segment i are ``consumers[offsets[i]:offsets[i + 1]]``.

So a record costs a binary search. ShuffleBench has a table of 65,536 equal slots in place of the segments. A record's
hash is its first 8 bytes, big-endian, without the sign. This module imports little, because Spark's workers import it.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

if TYPE_CHECKING:
    from evidence.engines.shufflebench import Rules

#: The hashes on the circle.
CIRCLE = 1 << 63
#: Tuples of a consumer an event.
EVERY = 10
#: The columns of a tuple: what ``tuples`` gives.
TUPLES = "consumer string, value binary, at long, partition int"


def write(rules: "Rules", folder: Path) -> None:
    """Write the segments of the rules into a folder."""
    circle = np.uint64(CIRCLE)
    ends = rules.starts + rules.widths
    over = np.flatnonzero(ends > circle)  # what is past the circle's end begins anew at 0
    owners = np.concatenate([np.arange(len(ends)), over])
    first = np.concatenate([rules.starts, np.zeros(len(over), np.uint64)])
    stop = np.concatenate([np.minimum(ends, circle), ends[over] - circle])
    bounds = np.unique(np.concatenate([np.zeros(1, np.uint64), first, stop]))
    bounds = bounds[bounds < circle]
    low = np.searchsorted(bounds, first)
    lengths = np.searchsorted(bounds, stop) - low
    segments = _ranges(low, lengths)
    consumers = np.repeat(owners, lengths)[np.argsort(segments, kind="stable")]
    offsets = np.append(0, np.cumsum(np.bincount(segments, minlength=len(bounds))))
    for name, values, kind in (("bounds", bounds, "<i8"), ("offsets", offsets, "<i4"), ("consumers", consumers, "<i4")):
        values.astype(kind).tofile(folder / name)


def first_longs(values: pa.Array) -> NDArray[np.int64]:
    """The first 8 bytes of each of n records (binary), big-endian: int64[n]."""
    heads = pc.call_function("binary_slice", [values], pc.SliceOptions(0, 8))
    return np.frombuffer(heads.cast(pa.binary(8)).buffers()[1], ">i8", len(values)).astype(np.int64)


class Matcher:
    """The segments in a folder."""

    def __init__(self, folder: Path) -> None:
        kinds = {"bounds": "<i8", "offsets": "<i4", "consumers": "<i4"}
        self._bounds, self._offsets, self._consumers = (np.memmap(folder / name, of, "r") for name, of in kinds.items())

    def match(self, values: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The tuples of n records (binary): the number of the record, and the consumer, both [tuples]."""
        hashes = first_longs(values) & np.int64(CIRCLE - 1)
        segments = np.searchsorted(self._bounds, hashes, "right") - 1
        low = self._offsets[segments]
        lengths = self._offsets[segments + 1] - low
        return np.repeat(np.arange(len(values)), lengths), self._consumers[_ranges(low, lengths)]


def _ranges(low: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The integers from each ``low`` on, so many of them, one range after the other."""
    return np.arange(lengths.sum()) + np.repeat(low - (np.cumsum(lengths) - lengths), lengths)


def tuples(folder: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow``: records with the columns ``value``, ``at``, ``partition`` → ``TUPLES``."""

    def match(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        matcher = Matcher(Path(folder))
        for batch in batches:
            records, consumers = matcher.match(batch.column("value"))
            names = pc.call_function(
                "binary_join_element_wise", ["consumer", pa.array(consumers).cast(pa.string()), "_"]
            )
            own = batch.take(pa.array(records))
            yield pa.RecordBatch.from_arrays([names, *own.columns], ["consumer", *own.schema.names])

    return match
