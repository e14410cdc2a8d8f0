"""The rows that a user's own query must write for a topic's messages, and a comparison with those that it wrote.

The query writes files by Spark's file sink, whose log says which files count. Here pyarrow reads them, without Spark.
The query takes a message's key from the first bytes of the value, so that every message has one.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlparse

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from tests.oracle.truth import Record, Verdict

#: The number of bytes of a message's value that are its key.
KEY_BYTES = 100
#: Messages at even offsets share their id with others of their key, within this many neighbouring offsets.
SHARED = 2000
_PARTITION = 1 << 40  # more than any offset


class Row(NamedTuple):
    """A row of a query's result. Its id is a message's place, or an id that a work remembers."""

    id: int
    key: bytes | None


def place(partition: int, offset: int) -> int:
    """A message's place as one number."""
    return partition * _PARTITION + offset


def shared_place(partition: int, offset: int) -> int:
    """The id by which a work remembers a message: at odd offsets its own, at even offsets that of several offsets."""
    return place(partition, offset if offset % 2 else offset - offset % SHARED)


def key_of(value: bytes | None) -> bytes | None:
    """A message's key."""
    return None if value is None else value[:KEY_BYTES]


def placed(records: Iterable[Record]) -> Counter[Row]:
    """The rows that ``balance`` must give for a topic's messages: one each."""
    return Counter(Row(place(record.partition, record.offset), key_of(record.value)) for record in records)


def remembered(records: Iterable[Record]) -> Counter[Row]:
    """The rows that ``keyed_map`` must give with ``Distinct``: one for each id of a key. Null is a key, too."""
    return Counter({Row(shared_place(record.partition, record.offset), key_of(record.value)) for record in records})


def written(folder: Path) -> Iterator[pa.Table]:
    """The tables that the log of Spark's file sink names in a folder."""
    log = folder / "_spark_metadata"
    entries = {int(path.name.removesuffix(".compact")): path for path in log.glob("[0-9]*")}
    compacted = max((number for number, path in entries.items() if path.suffix), default=-1)
    for number in sorted(entries):
        if number >= compacted:
            for line in entries[number].read_bytes().splitlines()[1:]:  # the first line is a version
                yield pq.ParquetFile(unquote(urlparse(orjson.loads(line)["path"]).path)).read()


def rows_of(tables: Iterable[pa.Table]) -> Counter[Row]:
    """The rows of tables with the columns ``id`` and ``key``."""
    found: Counter[Row] = Counter()
    for table in tables:
        found.update(map(Row, table["id"].to_pylist(), table["key"].to_pylist()))
    return found


def beyond_cap(
    tables: Iterable[pa.Table], number_of: Callable[[int, int], int | None], workers: int
) -> list[tuple[tuple[int | None, int], int, int]]:
    """Where a worker had more of a batch than PLANNED promises by default: (batch, worker), its rows, and its cap.

    Parameters
    ----------
    tables : iterable of Table
        Tables with the columns ``id``, which is a message's place, and ``worker``.
    number_of : (partition, offset) → int
        The number of the batch that took a message.
    workers : int
        W.

    """
    loads: Counter[tuple[int | None, int]] = Counter()
    for table in tables:
        batches = [number_of(*divmod(each, _PARTITION)) for each in table["id"].to_pylist()]
        loads.update(zip(batches, table["worker"].to_pylist(), strict=True))
    totals: Counter[int | None] = Counter()
    for (batch, _), rows in loads.items():
        totals[batch] += rows
    caps = {batch: max(-(-total // workers), 105 * total // (100 * workers)) for batch, total in totals.items()}
    return [(at, rows, caps[at[0]]) for at, rows in loads.items() if rows > caps[at[0]]]


def judge_rows(expected: Counter[Row], found: Counter[Row]) -> Verdict:
    """Compare a query's rows with the expected ones. Missing rows are lost, and all other differences are doubled."""
    lost, doubled = expected - found, found - expected
    verdict = Verdict(tuples=found.total(), lost=lost.total(), doubled=doubled.total())
    verdict.differ("row lost", lost.items())
    verdict.differ("row doubled", doubled.items())
    return verdict
