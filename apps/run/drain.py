"""Whether a run has done all that it was started for."""

from collections.abc import Mapping

from unskew.apps.checkpoint.totals import Totals
from unskew.apps.topology.settings import Settings
from unskew.apps.topology.sink import BatchReport


class Drain:
    """All messages that were there at the start.

    Parameters
    ----------
    settings : Settings
        The run's.
    ends : mapping
        Partition → the offset up to which (exclusive) there were messages.

    """

    def __init__(self, settings: Settings, ends: Mapping[int, int]) -> None:
        self._settings = settings
        self._ends = ends

    @property
    def waiting(self) -> int:
        """How many messages the topic has had up to then."""
        return sum(self._ends.values())

    def reached(self, report: BatchReport, *, flushing: bool) -> bool:
        """Whether all are counted after a batch, and their windows out.

        Event time stands still when tuples stop coming: its windows are waited for only when it passes (``flushing``).
        """
        taken = report.batch.end[self._settings.source_name]
        if any(taken.get(str(p), 0) < offset for p, offset in self._ends.items()):
            return False
        waits_for_windows = self._settings.time == "batch" or flushing
        return not waits_for_windows or self._over(report)

    def end_ms(self, totals: Totals) -> int:
        """When the last window is over; by event time, in which it costs nothing to wait, the last state's TTL too."""
        states = self._settings.states
        by_event = self._settings.time == "event"
        return totals.last_window_end_ms + (states.tail_ms if states is not None and by_event else 0)

    def _over(self, report: BatchReport) -> bool:
        """Whether the windows are out, and what states tell."""
        states, end_ms = self._settings.states, self.end_ms(report.totals)
        told = states is None or report.held is None or states.met(report.held, end_ms)
        return told and report.batch.watermark_ms >= end_ms
