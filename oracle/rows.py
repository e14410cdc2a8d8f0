"""What a user's own query must give of a topic's messages, row by row; and what it gave, judged against that.

The query writes files by Spark's file sink, whose log says which files count: they are read here by pyarrow, without
Spark. Its key of a message is the first bytes of the value, so that any message has one.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlparse

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from oracle.truth import Record, Verdict

#: A message's key is so many bytes of its value.
KEY_BYTES = 100
#: Messages at even offsets share their id with others of their key, at neighbouring offsets up to so many away.
SHARED = 2000
_PARTITION = 1 << 40  # more than any offset


class Row(NamedTuple):
    """A row of a query's result; what it is about is an id: a message's place, or what a work remembers."""

    id: int
    key: bytes | None


def place(partition: int, offset: int) -> int:
    """A message's place as one number."""
    return partition * _PARTITION + offset


def shared_place(partition: int, offset: int) -> int:
    """The id by which a work remembers a message: at odd offsets its own, at even ones that of a stretch of offsets."""
    return place(partition, offset if offset % 2 else offset - offset % SHARED)


def key_of(value: bytes | None) -> bytes | None:
    """A message's key."""
    return None if value is None else value[:KEY_BYTES]


def placed(records: Iterable[Record]) -> Counter[Row]:
    """The rows that ``balance`` must give of a topic's messages: one each."""
    return Counter(Row(place(record.partition, record.offset), key_of(record.value)) for record in records)


def remembered(records: Iterable[Record]) -> Counter[Row]:
    """The rows that ``keyed_map`` must give with ``Distinct``: one for each key and id, and none without a key."""
    found = {Row(shared_place(record.partition, record.offset), key_of(record.value)) for record in records}
    return Counter(row for row in found if row.key is not None)


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


def judge_rows(expected: Counter[Row], found: Counter[Row]) -> Verdict:
    """Judge a query's rows: what is missing is lost, what is too many or nobody's is doubled."""
    lost, doubled = expected - found, found - expected
    verdict = Verdict(tuples=found.total(), lost=lost.total(), doubled=doubled.total())
    verdict.differ("row lost", lost.items())
    verdict.differ("row doubled", doubled.items())
    return verdict
