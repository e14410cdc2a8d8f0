"""Where states lie: a map of blobs, in a test a dictionary, in a task a map state of Spark's."""

from typing import Any, Protocol, TypeAlias

#: (table, window, number of the bucket): windows by their start (ms), 0 where states outlive windows.
Place: TypeAlias = tuple[int, int, int]


class Store(Protocol):
    """A map of blobs; a call costs a round trip to the JVM (some 100 µs)."""

    def get(self, place: Place) -> bytes | None:
        """The blob that lies there."""
        ...

    def put(self, place: Place, blob: bytes) -> None:
        """Let it lie there."""
        ...

    def remove(self, place: Place) -> None:
        """Let nothing lie there."""
        ...


class MemoryStore:
    """A dictionary: what tests use, and merges that keep nothing."""

    def __init__(self) -> None:
        self.blobs: dict[Place, bytes] = {}

    def get(self, place: Place) -> bytes | None:
        """The blob that lies there."""
        return self.blobs.get(place)

    def put(self, place: Place, blob: bytes) -> None:
        """Let it lie there."""
        self.blobs[place] = blob

    def remove(self, place: Place) -> None:
        """Let nothing lie there."""
        self.blobs.pop(place, None)


class Delayed:
    """A store that is written at the end: what is changed twice in a batch is fetched once, and stored once.

    Parameters
    ----------
    store : Store
        Where it is written.

    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._changed: dict[Place, bytes | None] = {}

    def get(self, place: Place) -> bytes | None:
        """The blob that is to lie there."""
        return self._changed[place] if place in self._changed else self._store.get(place)

    def put(self, place: Place, blob: bytes) -> None:
        """Let it lie there."""
        self._changed[place] = blob

    def remove(self, place: Place) -> None:
        """Let nothing lie there."""
        self._changed[place] = None

    def flush(self) -> None:
        """Write what has changed."""
        for place, blob in self._changed.items():
            if blob is None:
                self._store.remove(place)
            else:
                self._store.put(place, blob)
        self._changed = {}


class SparkStore:
    """A ``MapState`` of Spark's, within one group of ``transformWithState``.

    Parameters
    ----------
    state : pyspark.sql.streaming.stateful_processor.MapState
        From three numbers to a blob.

    """

    def __init__(self, state: Any) -> None:
        self._state = state

    def get(self, place: Place) -> bytes | None:
        """The blob that lies there; Spark logs a warning if there is none."""
        found = self._state.getValue(place)
        return None if found is None else bytes(found[0])

    def put(self, place: Place, blob: bytes) -> None:
        """Let it lie there."""
        self._state.updateValue(place, (blob,))

    def remove(self, place: Place) -> None:
        """Let nothing lie there."""
        self._state.removeKey(place)
