"""What waits at a worker, in a topology whose queues are empty at the end of each batch."""

from collections.abc import Sequence

import numpy as np


def backlog(busy: Sequence[float], tuples: int) -> list[float]:
    """Each worker's queue, in tuples: its share of the batch's measured work, of the batch's tuples; float64[W].

    A batch lasts as long as its slowest worker takes, so what a queue would show, who is behind the others and how
    far, shows in the workers' times. All alike: each has a W-th of the batch; zeros if there was no work.

    Parameters
    ----------
    busy : float[W], s
        Each worker's time at work in the batch.
    tuples : int
        The batch's.

    Examples
    --------
    >>> backlog([3.0, 1.0], 100)
    [75.0, 25.0]

    """
    times = np.asarray(busy, np.float64)
    total = times.sum()
    return (times / total * tuples if total else np.zeros(len(times))).tolist()
