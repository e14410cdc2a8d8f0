"""A new routing table, and what has to move for it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.state import Value
from unskew.grouping.table.records import Records


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """What the controller broadcasts: F', as the routing table A', and Δ(F, F'), the keys to migrate.

    Attributes
    ----------
    table_keys : uint64[N_A]
        Hashes of the keys that the routing table names, ascending.
    table_workers : int32[N_A]
        Where they go.
    moved_keys : uint64[M]
        Hashes of the keys in Δ(F, F'), ascending: all whose worker changes, also those of ``expiring`` entries.
    moved_from, moved_to : int32[M]
        The workers that have and get their state.
    moved_sizes : float64[M]
        S(k, w), the size of each one's state.
    total_size : float
        The size of all keys' states.

    """

    table_keys: NDArray[np.uint64]
    table_workers: NDArray[np.int32]
    moved_keys: NDArray[np.uint64]
    moved_from: NDArray[np.int32]
    moved_to: NDArray[np.int32]
    moved_sizes: NDArray[np.float64]
    total_size: float

    @property
    def cost(self) -> float:
        """M(w, F, F'), Equation 2: the size of the state that moves."""
        return float(self.moved_sizes.sum())

    @property
    def share(self) -> float:
        """The cost as a share of all state: the "migration cost" of the paper's figures."""
        return self.cost / self.total_size if self.total_size else 0.0

    def expiring(self, keys: NDArray[np.uint64], workers: NDArray[np.int32], home: NDArray[np.int32]) -> Self:
        """Send home E keys (uint64[E]) whose entries expire: those of no interval in the window, so of size 0."""
        moved_keys = np.append(self.moved_keys, keys)
        order = np.argsort(moved_keys)
        return replace(
            self,
            moved_keys=moved_keys[order],
            moved_from=np.append(self.moved_from, workers)[order],
            moved_to=np.append(self.moved_to, home)[order],
            moved_sizes=np.append(self.moved_sizes, np.zeros(len(keys)))[order],
        )

    def values(self) -> Mapping[str, Value]:
        """The plan as a controller hands it out (``unskew.grouping.feedback``)."""
        return {
            "table_keys": self.table_keys,
            "table_workers": self.table_workers,
            "moved_keys": self.moved_keys,
            "moved_from": self.moved_from,
            "moved_to": self.moved_to,
            "moved_sizes": self.moved_sizes,
            "moved": len(self.moved_keys),
            "migration": self.cost,
            "migration_share": self.share,
        }


def migrate(
    hashes: NDArray[np.uint64], keys: Records, destination: NDArray[np.int32], rest_size: float = 0.0
) -> MigrationPlan:
    """The plan that takes K keys (hashes uint64[K] ascending, a record each) to their destinations, int32[K].

    ``rest_size`` is the size of the other keys' states, which nobody names.
    """
    routed = destination != keys.home
    moved = destination != keys.current
    return MigrationPlan(
        hashes[routed],
        destination[routed],
        hashes[moved],
        keys.current[moved],
        destination[moved],
        keys.memory[moved],
        float(keys.memory.sum()) + rest_size,
    )
