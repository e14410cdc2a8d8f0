"""What a run has given out since its start, carried from batch to batch beside the checkpoint."""

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import orjson

from unskew.apps.checkpoint.place import Place, Where
from unskew.apps.checkpoint.versions import ANY_BATCH, Versions
from unskew.grouping import measures


@dataclass(frozen=True)
class Totals:
    """Sums over the closed windows, and where the run stands.

    Attributes
    ----------
    started_ms : int
        Time of the first batch with tuples (ms since the epoch); −1 before there is one.
    routed, rejected, late, skipped : int
        Tuples routed, closed or not; messages rejected; tuples that came after their window was closed; messages that
        the topic no longer had when it was their turn.
    last_window_end_ms : int
        End of the latest window that has tuples, closed or not; −1 before there is one.
    tuples, assignments, keys : int
        Tuples in closed windows; over these windows, the sums of (key, worker) pairs and of distinct keys.
    loads : list of int
        Tuples of each worker in closed windows, [W]; W the most that there were.
    occupants : dict
        source → the keys in its grouping's old space when it last had tuples, for the schemes that have one.

    """

    started_ms: int = -1
    routed: int = 0
    rejected: int = 0
    late: int = 0
    last_window_end_ms: int = -1
    tuples: int = 0
    assignments: int = 0
    keys: int = 0
    loads: list[int] = field(default_factory=list)
    skipped: int = 0
    occupants: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def with_window(self, loads: list[int], assignments: int, keys: int) -> "Totals":
        """Include a closed window: its tuples a worker, (key, worker) pairs and distinct keys."""
        return replace(
            self,
            tuples=self.tuples + sum(loads),
            assignments=self.assignments + assignments,
            keys=self.keys + keys,
            loads=measures.summed([self.loads, loads]).tolist(),
        )


class TotalsLog:
    """The totals at the start of each batch, replayable as the routers' state is."""

    def __init__(self, checkpoint: Where) -> None:
        self._versions = Versions(Place.of(checkpoint).below("unskew", "totals"))

    def at(self, batch: int) -> Totals:
        """The totals at the start of a batch."""
        found = self._versions.newest(batch)
        said = orjson.loads(found[1]) if found else {}
        known = {field.name for field in fields(Totals)}  # another version may know more, or less
        return Totals(**{name: value for name, value in said.items() if name in known})

    def newest(self) -> Totals:
        """The totals as far as the run has come."""
        return self.at(ANY_BATCH)

    def write(self, batch: int, totals: Totals) -> None:
        """Set the totals at the start of a batch."""
        self._versions.write(batch, orjson.dumps(asdict(totals)))
