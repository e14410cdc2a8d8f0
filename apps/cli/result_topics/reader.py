"""Result topics: their list, their records, and the selection of the valid ones."""

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import orjson

from unskew.apps.worker.result_messages import NO_WINDOW
from unskew.errors import UsageError
from unskew.kafka.connection import Connection
from unskew.kafka.topics import end_offsets, list_topics

if TYPE_CHECKING:
    from confluent_kafka import Message

#: Kinds of result topics; their names end so (see ``unskew.apps.aggregator.publisher.list_result_topics``).
KINDS = ("aggregator", "distribution", "results", "rejected")

LATEST, ALL = "latest", "all"

_NAMES = re.compile(rf".+-s\d+-w\d+-\w+-({'|'.join(KINDS[:-1])})|.+-({KINDS[-1]})")
_SHOWN = 3  # windows in an error message
_WINDOW_DIGITS = len("2026-01-31T12:00:00.000Z")


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a result topic. It is parsed only when it is shown, because a topic may have millions of records."""

    key: str
    value: bytes

    @classmethod
    def of(cls, message: "Message") -> Self:
        return cls((message.key() or b"").decode(), message.value() or b"null")

    @property
    def window(self) -> str:
        """The start of the record's window, with which the Kafka key begins. Rejected messages have none.

        It is ``NO_WINDOW`` for a result of a state that outlives windows.
        """
        return NO_WINDOW if self.key.startswith(f"{NO_WINDOW}/") else self.key[:_WINDOW_DIGITS]

    @property
    def batch(self) -> tuple[int, int]:
        """What orders the records of a Kafka key: its checkpoint's generation, and the number of its batch.

        Records that name no batch come first.
        """
        named = self.parse().get("batch")
        return (-1, 0) if named is None else (named["generation"], named["number"])

    def parse(self) -> dict[str, Any]:
        return orjson.loads(self.value)


def get_kind(topic: str) -> str | None:
    """The kind of a topic, according to its name: one of ``KINDS``. None if it isn't a result topic."""
    found = _NAMES.fullmatch(topic)
    return (found[1] or found[2]) if found else None


def count_records(connection: Connection) -> dict[str, int]:
    """Result topic → how many records were ever written to it, at most: the end of each transaction counts, too."""
    found = [topic for topic in list_topics(connection) if get_kind(topic) is not None]
    with ThreadPoolExecutor(8) as pool:
        ends = pool.map(lambda topic: end_offsets(connection, topic), found)
        return {topic: sum(offsets.values()) for topic, offsets in zip(found, ends, strict=True)}


def require_result_topic(connection: Connection, topic: str) -> str:
    """The kind of an existing result topic.

    Raises ``UsageError`` if the topic doesn't exist, or isn't a result topic. The message lists the result topics that
    exist; ``EnvironmentFault`` if no broker answers.
    """
    found = list_topics(connection)
    kind = get_kind(topic)
    if topic in found and kind is not None:
        return kind
    valid = ", ".join(name for name in found if get_kind(name)) or "none yet (`unskew topology` makes them)"
    what = "holds no results" if topic in found else "doesn't exist"
    raise UsageError(f"topic {topic} {what}; result topics: {valid}")


class RecordSelection:
    """Keeps the latest record of each key in the selected windows.

    It takes a topic's records in their order. The latest record is the one of the latest batch, which isn't always the
    last: a driver that was paused, or a producer that tries again, may have written an older record last. Among records
    of one batch, or of no batch, it is the one that was written last. Only the records of the selected windows are in
    memory. If the topic's records don't belong to windows, all belong to one, named "".

    Parameters
    ----------
    window : str
        The selected windows: ``latest``, ``all``, or a text with which their start begins (``2026-01-31T12:00``).

    Attributes
    ----------
    windows : dict
        Window → Kafka key → the key's latest record.

    """

    def __init__(self, window: str = LATEST, *, windowed: bool = True) -> None:
        self._window = window
        self._windowed = windowed
        self._seen: set[str] = set()
        self.windows: dict[str, dict[str, Record]] = {}

    def add(self, records: Iterable[Record]) -> list[Record]:
        """Add records. Return those of the selected windows, without those that a later record has overwritten."""
        return [record for record in records if self._take(record)]

    @property
    def only_latest(self) -> bool:
        """Whether only one window is selected, which the next one replaces."""
        return self._window == LATEST

    def window_of(self, record: Record) -> str:
        """The window of a record, as a key of ``windows``."""
        return record.window if self._windowed else ""

    def _take(self, record: Record) -> bool:
        window = self.window_of(record)
        self._seen.add(window)
        if self._window == LATEST:
            newest = next(iter(self.windows), window)
            if window < newest:
                return False
            if window > newest:
                self.windows.clear()
        elif self._window != ALL and not window.startswith(self._window):
            return False
        latest = self.windows.setdefault(window, {})
        if record.key in latest and record.batch < latest[record.key].batch:
            return False
        latest[record.key] = record
        return True

    def require_known(self) -> None:
        """Refuse a window that the topic doesn't have.

        Raises ``UsageError`` if the topic has windows, but none whose start begins with the text.
        """
        if self._seen and not self.windows:
            last = ", ".join(sorted(self._seen)[-_SHOWN:])
            raise UsageError(
                f"no window starts with {self._window!r}; valid: latest, all, or one of the {len(self._seen)}: … {last}"
            )
