"""The routing table of a join that splits hot keys, and a source's routing with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.feedback import Plan
from unskew.grouping.hashing import choose_homes, hash_function
from unskew.grouping.keys import Keys
from unskew.grouping.state import Value

#: The sides of a join.
LEFT, RIGHT = 0, 1
#: A pair's cost, where a row costs 1.
PAIR_COST = 0.02

_ONE = 1 << 32  # a whole key, in the integers that divide its rows
#: 2^32 divided by the golden ratio, any number of whose multiples, modulo 2^32, fill a circle evenly.
_STEP = 2_654_435_769
_OF_SOURCE, _OF_BATCH = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F


@dataclass(frozen=True)
class Copies:
    """Which workers copy their rows of which keys to which others: g entries."""

    keys: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))  #: uint64[g]: The keys' hashes.
    #: int32[g]: The workers.
    senders: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    receivers: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    #: int8[g]: The side whose rows are copied.
    sides: NDArray[np.int8] = field(default_factory=lambda: np.empty(0, np.int8))

    def where(self, which: NDArray[np.bool_]) -> "Copies":
        """Select entries, bool[g]."""
        return Copies(*(getattr(self, each.name)[which] for each in fields(self)))

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True)
class JoinTable:
    """Where the rows of q split keys go. Other keys are at their homes, with both sides.

    The places of key *i* are those from ``starts[i]`` up to ``starts[i + 1]``. All of them get the rows of its copied
    side. Those with a weight get rows of its split side, in proportion to their weights.

    """

    #: uint64[q]: The keys' hashes, ascending.
    keys: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    #: int8[q]: Each key's split side, ``LEFT`` or ``RIGHT``.
    split: NDArray[np.int8] = field(default_factory=lambda: np.empty(0, np.int8))
    starts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))  #: int64[q + 1]: See above.
    #: int32[c]: Workers. A key's first one has had it for the longest time.
    places: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    #: float64[c]: At least one per key is above 0.
    weights: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    #: int64[c]: The plan since which the weight is 0, or 0 if it isn't.
    since: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    #: The new places in this plan, which get the copied side's older rows in the batch after its first.
    grow: Copies = field(default_factory=Copies)
    grown: Copies = field(default_factory=Copies)  #: The previous plan's ``grow``.
    #: uint64[l], int32[l]: The places that keys lose with this plan, which drop all rows of the key.
    leave_keys: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    leave_places: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    #: float64[q, 2]: The expected rows of each side in a batch, of the copied side at one place.
    rows: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 2)))
    pairs: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))  #: float64[q]: Their expected pairs.
    #: float64[W]: Each worker's expected load of keys outside the table; empty if unknown.
    rest: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    size: float = 0.0  #: The load of the batch that these expectations are for.

    @classmethod
    def of(cls, plan: Plan | None) -> Self:
        """The table of a plan, empty without one."""
        if plan is None:
            return cls()
        values: Mapping[str, Any] = plan.values
        copies = {
            name: Copies(*(values[f"{name}_{each.name}"] for each in fields(Copies))) for name in ("grow", "grown")
        }
        own: dict[str, Any] = {each.name: values[each.name] for each in fields(cls) if each.name not in copies}
        return cls(**own, grow=copies["grow"], grown=copies["grown"])

    def values(self) -> dict[str, Value]:
        """The values of a plan with this table."""
        found: dict[str, Value] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, Copies):
                found |= {f"{each.name}_{part.name}": getattr(value, part.name) for part in fields(Copies)}
            else:
                found[each.name] = value
        return found

    def list_places(self, entry: int) -> list[int]:
        """The places of a table's key."""
        places: list[int] = self.places[self.starts[entry] : self.starts[entry + 1]].tolist()
        return places

    def find(self, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Each key's position in the table, int64[k]; −1 if it isn't there."""
        if not len(self.keys):
            return np.full(len(hashes), -1)
        at = np.minimum(np.searchsorted(self.keys, hashes), len(self.keys) - 1)
        return np.where(self.keys[at] == hashes, at, -1)


class JoinRouter:
    """Routes one side's rows at one source in one batch.

    Its answers depend only on the table, the source, the batch and the rows' order, not on how rows are cut. ``source``
    and ``batch`` decide a split key's first place.
    """

    def __init__(self, table: JoinTable, side: int, workers: int, seed: int, source: int, batch: int) -> None:
        self._table, self._side, self._workers = table, side, workers
        self._function = hash_function(seed)
        mixed = (_OF_SOURCE * (source + 1) + _OF_BATCH * (batch + 1)) & 0xFFFF_FFFF_FFFF_FFFF
        self._next = ((table.keys ^ np.uint64(mixed)) >> np.uint64(32)).astype(np.int64)
        self._ends = _place_bounds(table)

    def route(self, keys: Keys) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Route n rows: returns m ≥ n rows, int64[m], ascending, and their workers, int32[m].

        A row for several workers is there several times.
        """
        home = choose_homes(keys.hashes, self._function, self._workers)
        rows, workers = np.arange(len(keys.codes)), home[keys.codes]
        of_key = self._table.find(keys.hashes)
        if not (of_key >= 0).any():
            return rows, workers
        entry = of_key[keys.codes]
        named = np.flatnonzero(entry >= 0)
        divided = self._table.split[entry[named]] == self._side
        workers[named[divided]] = self._divide(entry[named[divided]])
        copied = named[~divided]
        first, stop = (self._table.starts[entry[copied] + more] for more in (0, 1))
        many = np.ones(len(rows), np.int64)
        many[copied] = stop - first
        rows, workers = np.repeat(rows, many), np.repeat(workers, many)
        # A copied row's number among its copies is the place's.
        begins = np.cumsum(many) - many
        at = np.repeat(begins[copied], stop - first)
        within = np.arange(len(at)) - np.repeat(np.cumsum(stop - first) - (stop - first), stop - first)
        workers[at + within] = self._table.places[np.repeat(first, stop - first) + within]
        return rows, workers

    def _divide(self, entry: NDArray[np.int64]) -> NDArray[np.int32]:
        """The places of rows of split sides, of these keys of the table: int32[s]."""
        order = np.argsort(entry, kind="stable")
        counts = np.bincount(entry, minlength=len(self._table.keys))
        number = np.empty(len(entry), np.int64)
        number[order] = np.arange(len(entry)) - np.repeat(np.cumsum(counts) - counts, counts)
        fraction = (self._next[entry] + number * _STEP) & (_ONE - 1)
        self._next = (self._next + counts * _STEP) & (_ONE - 1)
        return self._table.places[np.searchsorted(self._ends, entry * _ONE + fraction, side="right")]


def _place_bounds(table: JoinTable) -> NDArray[np.int64]:
    """The end of each place's share, int64[c], ascending: key *i* has the numbers from i·2³² on."""
    ends = np.empty(len(table.places), np.int64)
    for entry, (start, stop) in enumerate(zip(table.starts[:-1].tolist(), table.starts[1:].tolist(), strict=True)):
        total = np.cumsum(table.weights[start:stop])
        ends[start:stop] = entry * _ONE + np.floor(total / total[-1] * _ONE).astype(np.int64)
    return ends
