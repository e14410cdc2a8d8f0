"""Where the loop stands at the start of a batch, as a value."""

import json
from dataclasses import asdict, dataclass
from typing import Any, Self

from unskew.apps.feedback.rebalance import Rebalance
from unskew.grouping.feedback import Plan
from unskew.grouping.state import Value, pack, unpack

_IDENTITY = "standing"


@dataclass(frozen=True, slots=True)
class Standing:
    """By what the tuples of a batch are routed, and what is under way.

    Attributes
    ----------
    workers : int
        W by the active plan.
    active : Plan, optional
        What the routers go by; None: as without feedback.
    pending : Plan, optional
        Made, and not routed by yet: in their next batch the workers hand out the states of the keys that leave them.
    pending_workers : int
        W once it is active; as ``workers`` where nothing is rescaled.
    controller : bytes
        The controller's state.
    released : frozenset of int
        The workers that have handed out what the pending plan takes from them.
    untold : tuple of Rebalance
        The plans that move keys by which no batch was routed yet.

    """

    workers: int
    active: Plan | None = None
    pending: Plan | None = None
    pending_workers: int = 0
    controller: bytes = b""
    released: frozenset[int] = frozenset()
    untold: tuple[Rebalance, ...] = ()

    def __post_init__(self) -> None:
        """Without rescaling, W stays."""
        if not self.pending_workers:
            object.__setattr__(self, "pending_workers", self.workers)

    def save(self) -> bytes:
        """It as bytes: the same standing gives the same bytes."""
        values: dict[str, Value] = {
            "workers": self.workers,
            "active": self.active.save() if self.active else None,
            "pending": self.pending.save() if self.pending else None,
            "pending_workers": self.pending_workers,
            "controller": self.controller,
            "released": json.dumps(sorted(self.released)).encode(),
            "untold": json.dumps([asdict(rebalance) for rebalance in self.untold]).encode(),
        }
        return pack(_IDENTITY, values)

    @classmethod
    def read(cls, data: bytes) -> Self:
        """What was saved.

        Raises
        ------
        ValueError
            The bytes are no saved standing.

        """
        said: dict[str, Any] = unpack(_IDENTITY, data)
        for name in ("active", "pending"):
            said[name] = Plan.read(said[name]) if said[name] else None
        said["released"] = frozenset(json.loads(said["released"]))
        said["untold"] = tuple(Rebalance(**told) for told in json.loads(said["untold"]))
        return cls(**said)
