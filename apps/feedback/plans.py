"""The standings beside a query's checkpoint: version ``b`` is what holds at the start of batch ``b``.

The driver writes it at the end of batch ``b - 1``, before that is committed, so no task of batch ``b`` can be ahead of
it. A plan depends on measured times and can't be made a second time: a version that is written stands.
"""

from functools import lru_cache

from unskew.apps.checkpoint.place import Place, Where
from unskew.apps.checkpoint.versions import ANY_BATCH, Versions
from unskew.apps.feedback.standing import Standing


class Plans:
    """The standings of one query.

    Parameters
    ----------
    checkpoint : str or Place
        The query's checkpoint location.

    """

    def __init__(self, checkpoint: Where) -> None:
        self._versions = Versions(Place.of(checkpoint).below("unskew", "plans"))

    def at(self, batch: int) -> Standing | None:
        """What holds at the start of a batch; None: nothing was ever planned before it."""
        found = self._versions.newest(batch)
        return _read(found[1]) if found else None

    def newest(self) -> Standing | None:
        """What was written last; None: nothing was."""
        return self.at(ANY_BATCH)

    def written(self, batch: int) -> Standing | None:
        """What was written for the start of this very batch, if anything was."""
        found = self._versions.newest(batch)
        return _read(found[1]) if found and found[0] == batch else None

    def write(self, batch: int, standing: Standing) -> None:
        """Set what holds at the start of a batch, for which nothing is written yet."""
        self._versions.write(batch, standing.save())


@lru_cache(maxsize=2)
def _read(data: bytes) -> Standing:
    """What was saved: the tasks of a batch that share a process, and those of the next, read a long table once."""
    return Standing.read(data)
