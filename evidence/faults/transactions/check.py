"""What a plain consumer of committed records sees of a campaign's records, held against what was to be written."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from evidence.faults.transactions.protocol import commits_of
from evidence.faults.transactions.writer import VALUE, Written
from unskew.kafka.connection import ISOLATION, Connection
from unskew.kafka.reader import TopicReader
from unskew.kafka.topics import end_offsets

_FIELDS = np.dtype([("part", ">u2"), ("batch", ">u4"), ("record", ">u4")])
_CHUNK = 100_000  # records
_SETTLED = 30.0  # s; the ends of transactions are written after a commit's answer
assert _FIELDS.itemsize == VALUE.size


@dataclass(frozen=True)
class Verdict:
    """What was seen.

    ``records``: Records that the consumer has read. ``lost``: Records of batches that were written, as a process said,
    and of which the consumer has read none. Those of a batch that only has a part of its records are lost, too.
    ``doubled``: Records that it has read once more than once, twice more counts as two. ``open``: Partitions in which a
    transaction is open: they have an end for consumers of committed records, and a later one.
    """

    records: int
    lost: int
    doubled: int
    open: tuple[str, ...]

    @property
    def exact(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.lost or self.doubled or self.open)


def check(connection: Connection, written: Written, batches: Sequence[int]) -> Verdict:
    """Read the topic of records to its end.

    ``connection``, ``written``: Where, and what. ``batches``: Part → how many batches it has written. Of the next one
    all records may be there, or none.
    """
    starts = np.cumsum([0, *((number + 1) * written.records for number in batches)])
    seen = np.zeros(starts[-1], np.uint8)
    still_open = _open(connection, written.topic)
    plain = Connection(connection.bootstrap_servers, {ISOLATION: "read_committed"})
    with TopicReader(plain, written.topic) as reader:
        there = reader.to_end()
        while messages := list(islice(there, _CHUNK)):
            found = np.frombuffer(b"".join([message.value() or b"" for message in messages]), _FIELDS)
            places = starts[found["part"]] + found["batch"].astype(np.int64) * written.records + found["record"]
            np.add.at(seen, places, 1)
    return judge([seen[starts[part] : starts[part + 1]] for part in range(len(batches))], written.records, still_open)


def judge(seen: Sequence[np.ndarray], size: int, still_open: tuple[str, ...] = ()) -> Verdict:
    """The verdict on how often each record was seen.

    ``seen``: Part → how often each record was seen, batch after batch; the last batch is one that may not have been
    written. ``size``: Records of a batch. ``still_open``: Partitions with an open transaction.
    """
    lost = doubled = records = 0
    for counts in seen:
        of_batches = counts.reshape(-1, size)
        missing = np.count_nonzero(of_batches == 0, axis=1)
        lost += int(missing[:-1].sum()) + int(missing[-1] if missing[-1] < size else 0)
        doubled += int(counts[counts > 1].astype(np.int64).sum() - np.count_nonzero(counts > 1))
        records += int(counts.astype(np.int64).sum())
    return Verdict(records, lost, doubled, still_open)


def _open(connection: Connection, topic: str) -> tuple[str, ...]:
    """The partitions that still have an open transaction after some time."""
    until = time.monotonic() + _SETTLED
    while True:
        found = tuple(
            f"{name} {partition}"
            for name in (topic, commits_of(topic))
            for partition, end in end_offsets(connection, name, committed=True).items()
            if end != end_offsets(connection, name, committed=False)[partition]
        )
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.2)
