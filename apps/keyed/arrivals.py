"""A worker's tuples of a batch: its packets as one batch of rows, without those that are late, by window."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from unskew.apps.keyed.program import Beat, Program
from unskew.apps.topology import packets
from unskew.apps.topology.router import milliseconds
from unskew.grouping.keys import Keys, encode


def gathered(blobs: Sequence[bytes], program: Program, beat: Beat) -> pa.RecordBatch:
    """All packets' tuples, in their order: ``key`` (dictionary), ``time`` (int64, ms) and the columns that travel."""
    parts = [packets.read(pa.scalar(blob, pa.binary())) for blob in blobs]
    if not parts:
        names = ["key", "time"]
        empty = [pa.array([], program.key).dictionary_encode(), pa.array([], pa.int64())]
        return pa.RecordBatch.from_arrays(empty, names)
    kind = pa.dictionary(pa.int32(), program.key)
    keys = pa.chunked_array([_encoded(part.column("key"), kind) for part in parts]).unify_dictionaries()
    n = len(keys)
    columns = {"key": keys.combine_chunks()}
    if program.event:
        times = np.concatenate([milliseconds(part.column("time")) for part in parts])
        columns["time"] = pa.array(times)
    else:
        columns["time"] = pa.array(np.full(n, beat.batch_ms, np.int64))
    for name in program.columns:
        if name != "time":
            columns[name] = pa.concat_arrays([part.column(name) for part in parts])
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _encoded(keys: pa.Array, kind: pa.DictionaryType) -> pa.Array:
    return (keys if pa.types.is_dictionary(keys.type) else keys.dictionary_encode()).cast(kind)


def occurring(tuples: pa.RecordBatch) -> Keys:
    """The tuples' keys, only those that occur: a dictionary may have more."""
    keys = encode(tuples.column("key"))
    occurs = np.zeros(len(keys.distinct), np.bool_)
    occurs[keys.codes] = True
    if occurs.all():
        return keys
    positions = (np.cumsum(occurs) - 1).astype(np.int32)
    return Keys(positions[keys.codes], keys.hashes[occurs], keys.distinct.filter(pa.array(occurs)))


def windows_of(tuples: pa.RecordBatch, length_ms: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """(start, its tuples) for each tumbling window that the tuples fall into, oldest first."""
    starts = tuples.column("time").to_numpy() // length_ms * length_ms
    different = np.unique(starts)
    if len(different) == 1:
        yield int(different[0]), tuples
        return
    for start in different.tolist():
        yield start, tuples.filter(pa.array(starts == start))


def punctual(tuples: pa.RecordBatch, program: Program, closed_ms: int) -> tuple[pa.RecordBatch, dict[int, int], int]:
    """The tuples that aren't late; how many came of each counted window; how many are late though theirs is open.

    Where states live for a window, a tuple is late once its window is closed; where they live for a TTL, once it is
    older than the watermark was at the end of the batch before, ``closed_ms``.
    """
    counted: dict[int, int] = {}
    if not program.event or not tuples.num_rows:
        return tuples, counted, 0
    times = tuples.column("time").to_numpy()
    length = program.counted_ms or program.window_ms
    fine = np.ones(len(times), np.bool_)
    if length is not None:
        fine &= times // length * length + length > closed_ms
    older = fine & (times < closed_ms) if program.window_ms is None else np.zeros(len(times), np.bool_)
    if length is not None:
        numbers, tallies = np.unique(times[~older] // length, return_counts=True)
        counted = dict(zip(numbers.tolist(), tallies.tolist(), strict=True))
    kept = fine & ~older
    return (tuples if kept.all() else tuples.filter(pa.array(kept))), counted, int(older.sum())
