"""The two streams of the job ``join``, and their pairs by NumPy alone.

A row is a message ``{"key","id"}``, whose time is that of Kafka's record. Half of the left stream's rows have one key,
and the others are drawn evenly from the other keys. The right stream is a tenth of the left one, in rows and in rows a
second, and its keys are drawn evenly from all. So a left row has one partner in the mean, whatever its key is and
however long the streams are, and the hot key has half of the left rows and half of the pairs.
"""

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import numpy as np
import orjson
from numpy.typing import NDArray

from unskew.kafka.connection import Connection
from unskew.kafka.reader import TopicReader

#: How far apart the times of a pair may be, in ms. Both bounds belong to it.
WITHIN_MS = 1_000
#: The keys, of which 0 is the hot one, and its share of the left stream.
KEYS, HOT_SHARE = 1_000, 0.5
_RATE = 5_000  # left rows a second of event time
_SMALLER = 10  # times

Numbers = TypeVar("Numbers", int, NDArray[np.int64])


class Side(NamedTuple):
    """The n rows of a stream: their keys, their ids, and their times in ms, each int64[n]."""

    key: NDArray[np.int64]
    id: NDArray[np.int64]
    at: NDArray[np.int64]

    def messages(self) -> Iterator[tuple[bytes, int]]:
        """The rows as messages, each with its time."""
        for key, row, at in zip(*(column.tolist() for column in self), strict=True):
            yield orjson.dumps({"key": str(key), "id": row}), at


def draw_sides(records: int) -> tuple[Side, Side]:
    """The left and the right stream, of so many rows together, by time. Times begin at 0."""
    rng, right = np.random.default_rng(0), records // (_SMALLER + 1)
    left = records - right
    of_left = np.where(rng.random(left) < HOT_SHARE, 0, rng.integers(1, KEYS, left))
    sides = (of_left, _RATE), (rng.integers(0, KEYS, right), _RATE // _SMALLER)
    first, second = (Side(key, np.arange(len(key)), np.arange(len(key)) * 1000 // rate) for key, rate in sides)
    return first, second


def read_side(connection: Connection, topic: str) -> Side:
    """The rows of a topic, as a plain consumer reads them."""
    with TopicReader(connection, topic) as reader:
        messages = [(orjson.loads(message.value() or b""), message.timestamp()[1]) for message in reader.to_end()]
    rows = np.array([(int(row["key"]), row["id"], at) for row, at in messages], np.int64).reshape(-1, 3)
    return Side(*rows.T)


def sum_pairs(left: Side, right: Side) -> dict[tuple[int, str], int]:
    """What must come of two streams: (0, key) → its pairs, and (1, key) → the sum of their codes (``code_pair``).

    Keys without a pair have no place.
    Raises ValueError: There is no pair, so that a program which does nothing would be right.
    """
    begin = min(side.at.min(initial=np.iinfo(np.int64).max) for side in (left, right))
    span = max(int(side.at.max(initial=0)) for side in (left, right)) - begin + WITHIN_MS + 1
    # Numbers that grow with the key and then with the time; keys are too far apart to have common pairs.
    ours, theirs = (side.key * span + side.at - begin for side in (left, right))
    order = np.argsort(theirs, kind="stable")
    first = np.searchsorted(theirs[order], ours - WITHIN_MS, "left")
    many = np.searchsorted(theirs[order], ours + WITHIN_MS, "right") - first
    of_left = np.repeat(np.arange(len(ours)), many)
    partner = order[np.arange(len(of_left)) + np.repeat(first - (np.cumsum(many) - many), many)]
    if not len(of_left):
        raise ValueError(f"{len(ours) + len(theirs):,} rows make no pair; valid: more records")
    pairs, sums = np.zeros((2, KEYS), np.int64)
    np.add.at(pairs, left.key[of_left], 1)
    np.add.at(sums, left.key[of_left], code_pair(left.id[of_left], right.id[partner]))
    return {
        (number, str(key)): int(of[key]) for key in np.flatnonzero(pairs) for number, of in enumerate((pairs, sums))
    }


def code_pair(left: Numbers, right: Numbers) -> Numbers:
    """A number below 2³² of a pair's ids, which are below 2³¹. Rows that change partners change the codes' sum."""
    return (left * 2_654_435_761 ^ right * 2_246_822_519) & 0xFFFF_FFFF
