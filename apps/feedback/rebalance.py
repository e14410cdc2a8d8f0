"""What became of a plan that moves keys: from its making to the first batch that was routed by it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rebalance:
    """One plan that moved keys.

    Attributes
    ----------
    plan : int
        Its number.
    made : int
        The batch at whose end it was made.
    planning_seconds : float
        What the controller took for it.
    table : int
        Entries of its routing table, or tokens of its ring.
    before : float
        Slowest over mean worker's time in the batch ``made``.
    keys : int, optional
        How many keys moved; None: nobody counted (a ring's keys, where no states move with them).
    bytes : int
        The size of their states, where workers have states.
    batch : int
        The first batch with tuples that was routed by it; −1 before there is one.
    after : float
        Slowest over mean worker's time in that batch.
    workers_before, workers : int
        W before and after, where it is for that; else 0.

    """

    plan: int
    made: int
    planning_seconds: float
    table: int
    before: float
    keys: int | None = None
    bytes: int = 0
    batch: int = -1
    after: float = 0.0
    workers_before: int = 0
    workers: int = 0

    def __str__(self) -> str:
        """In words, for people.

        >>> str(Rebalance(3, 7, 0.0021, 12, 2.4, keys=1500, batch=9, after=1.125))
        'plan 3: 1,500 keys moved, planned in 2 ms, table of 12, slowest / mean worker 2.40 → 1.12'
        >>> str(Rebalance(4, 9, 0.0, 0, 1.1, keys=700, bytes=56_000, workers_before=10, workers=20))
        'rescaled from 10 to 20 workers: the states of 700 keys moved (56,000 bytes)'
        """
        moved = "the ring's tokens" if self.keys is None else f"{self.keys:,} key{'s' * (self.keys != 1)}"
        size = f" ({self.bytes:,} bytes)" if self.bytes else ""
        if self.workers:
            states = f": the states of {moved} moved{size}" if self.bytes else ""
            return f"rescaled from {self.workers_before} to {self.workers} workers{states}"
        return (
            f"plan {self.plan}: {moved} moved{size}, planned in {1000 * self.planning_seconds:.0f} ms, "
            f"table of {self.table:,}, slowest / mean worker {self.before:.2f} → {self.after:.2f}"
        )
