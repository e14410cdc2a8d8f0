"""The records that a user asked for: the latest of each key, of some windows."""

from collections.abc import Iterable

from unskew.apps.results.reader import Record
from unskew.errors import UsageError

LATEST, ALL = "latest", "all"

_NAMED = 3  # windows that an error message names


class Selection:
    """Takes in a topic's records in their order and keeps what was asked for.

    Memory: the records of the windows asked for, not those of the topic.

    Parameters
    ----------
    window : str
        ``latest``, ``all``, or what a window's start begins with (``2026-01-31T12:00``).
    windowed : bool
        Whether the topic's records belong to windows; if not, they're all of one, named "".

    Attributes
    ----------
    windows : dict
        Window → Kafka key → its latest record.

    """

    def __init__(self, window: str = LATEST, *, windowed: bool = True) -> None:
        self._asked = window
        self._windowed = windowed
        self._seen: set[str] = set()
        self.windows: dict[str, dict[str, Record]] = {}

    def add(self, records: Iterable[Record]) -> list[Record]:
        """Take in records; those of them that were asked for."""
        return [record for record in records if self._take(record)]

    @property
    def only_latest(self) -> bool:
        """Whether it is one window, which the next one replaces."""
        return self._asked == LATEST

    def window_of(self, record: Record) -> str:
        """The window of a record, as ``windows`` has it."""
        return record.window if self._windowed else ""

    def _take(self, record: Record) -> bool:
        window = self.window_of(record)
        self._seen.add(window)
        if self._asked == LATEST:
            newest = next(iter(self.windows), window)
            if window < newest:
                return False
            if window > newest:
                self.windows.clear()
        elif self._asked != ALL and not window.startswith(self._asked):
            return False
        self.windows.setdefault(window, {})[record.key] = record
        return True

    def require_known(self) -> None:
        """Complain of a window that there isn't.

        Raises
        ------
        UsageError
            There are windows, but none that starts so.

        """
        if self._seen and not self.windows:
            last = ", ".join(sorted(self._seen)[-_NAMED:])
            raise UsageError(
                f"no window starts with {self._asked!r}; valid: latest, all, or one of the {len(self._seen)}: … {last}"
            )
