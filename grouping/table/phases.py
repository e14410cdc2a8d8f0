"""The workflow of section 3, which LLFD, MINTABLE, MINMIG and MIXED share: cleaning, preparing, assigning."""

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.table.fit import fit
from unskew.grouping.table.records import Placement, Records


class Workflow:
    """The three phases over one set of records; the sorts are done once for however many trials.

    Parameters
    ----------
    records : Records
        The keys as they are.
    limit : float
        L_max.
    psi : float64[R]
        ψ, the selection criterion of phases II and III: keys of the largest value first. Equal ones in the
        records' order.

    """

    def __init__(self, records: Records, limit: float, psi: NDArray[np.float64]) -> None:
        self.records = records
        self.limit = limit
        self._rest = np.full(records.workers, records.rest, np.float64)
        self._by_cost = np.argsort(-records.cost, kind="stable")
        self._by_psi = self._by_cost if psi is records.cost else np.argsort(-psi, kind="stable")
        routed = np.flatnonzero(records.current != records.home)
        #: The records with entries in the routing table by η: smallest memory consumption first.
        self._routed = routed[np.argsort(records.memory[routed], kind="stable")]
        self._entries = np.cumsum(records.count[self._routed])
        self.table = int(self._entries[-1]) if len(routed) else 0

    def run(self, back: int) -> Placement:
        """Phases I to III: move ``back`` entries of the routing table (0 to ``table``) home, then balance."""
        records = self.records
        worker, count = records.current.copy(), records.count
        by_cost, by_psi = self._by_cost, self._by_psi
        record = np.arange(len(records))
        whole = int(np.searchsorted(self._entries, back, side="right"))
        home = self._routed[:whole]
        worker[home] = records.home[home]
        part = back - int(self._entries[whole - 1]) if whole else back
        if part:
            # A group of which only a part goes home is two entries.
            split = self._routed[whole]
            count = np.append(count, part)
            count[split] -= part
            worker = np.append(worker, records.home[split])
            record = np.append(record, split)
            by_cost, by_psi = (
                np.insert(order, np.flatnonzero(order == split)[0] + 1, len(records)) for order in (by_cost, by_psi)
            )
        left, entry, assigned = fit(records.cost[record], worker, count, by_cost, by_psi, self._rest, self.limit)
        stay = np.flatnonzero(left)
        return Placement(
            records,
            np.concatenate([record[stay], record[entry]]),
            np.concatenate([worker[stay], assigned]),
            np.concatenate([left[stay], np.ones(len(entry), np.int64)]),
        )
