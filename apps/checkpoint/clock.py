"""Batch time: the clock of whatever driver it is, put on by as much as it would otherwise run backwards.

Windows are by the batch's time, and a window is closed once a batch has had a later one. A driver whose clock is behind
that of the one before it, or is set back, would find all its windows closed.
"""

from unskew.apps.checkpoint.place import Place, Where
from unskew.apps.checkpoint.versions import ANY_BATCH, Versions


class Clock:
    """How much batch time is ahead of Spark's timestamps; versioned, so that a replay has the time of the first run.

    Parameters
    ----------
    checkpoint : str or Place
        The query's checkpoint location.

    Attributes
    ----------
    ahead_ms : int
        From the batch on that is the next to run; at least 0.

    """

    def __init__(self, checkpoint: Where) -> None:
        self._versions = Versions(Place.of(checkpoint).below("unskew", "clock"))
        found = self._versions.newest(ANY_BATCH)
        self.ahead_ms = int(found[1]) if found else 0

    def put_on(self, batch: int, ms: int) -> None:
        """Let time be so much further on, from this batch on, which has had no effect yet."""
        self.ahead_ms += ms
        self._versions.write(batch, b"%d" % self.ahead_ms)
