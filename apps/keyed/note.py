"""What a worker remembers of the batch before, beside its states."""

from dataclasses import astuple, dataclass

import numpy as np

from unskew.apps.keyed.store import Place, Store

_PLACE: Place = (0, 0, -2)


@dataclass(frozen=True)
class Note:
    """The batch before.

    Attributes
    ----------
    batch_ms : int
        Its time.
    closed_ms : int
        The watermark at its end: nothing older is taken in.
    met_ms : int
        The watermark when states last met.
    taken, released : int
        The newest plan whose states have been taken in, and the newest for which states have been handed out.

    """

    batch_ms: int = 0
    closed_ms: int = 0
    met_ms: int = 0
    taken: int = 0
    released: int = 0

    @classmethod
    def read(cls, store: Store) -> "Note":
        """What was noted; an older version of this program noted less."""
        found = store.get(_PLACE)
        return cls(*np.frombuffer(found, np.int64).tolist()) if found else cls()

    def write(self, store: Store) -> None:
        """Note it."""
        store.put(_PLACE, np.array(astuple(self), np.int64).tobytes())
