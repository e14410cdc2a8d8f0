"""POSG as the paper runs it, event by event: one scheduler, k instances with FIFO queues, and messages between them.

``Posg`` gets its feedback by intervals. This is the machine itself: a request travels with a tuple and is answered when
that tuple has been executed, sketches leave an instance at the tuple that made them stable, and every message takes
effect at its own moment. The steps (``scheduler``, ``instances``, ``sketch``) are the same compiled ones.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.compiled import kernel
from unskew.grouping.keys import Keys
from unskew.grouping.posg.instances import execute, new_instances, reset
from unskew.grouping.posg.mail import due, new_mail, post, remove
from unskew.grouping.posg.router import Posg
from unskew.grouping.posg.scheduler import (
    EPOCH,
    SEND_ALL,
    STATE,
    WAIT_ALL,
    Scheduler,
    mean_cost,
    receive_matrices,
    submit,
    synchronise,
)
from unskew.grouping.posg.sketch import cells


class Timeline(NamedTuple):
    """What became of n tuples."""

    workers: NDArray[np.int32]  # [n]
    finishes: NDArray[np.float64]  # [n], ms
    states: NDArray[np.int8]  # [n], the scheduler's state when it decided
    messages: int  # sketches and replies that were sent; requests travel with tuples


def unfold(
    router: Posg,
    keys: Keys,
    arrivals: NDArray[np.float64],
    services: NDArray[np.float64],
    *,
    latency: float = 0.0,
) -> Timeline:
    """Run n tuples through a new router's scheduler and its k workers.

    Time O(log 1/δ + log k) a tuple.

    Parameters
    ----------
    router : Posg
        New; it gives the parameters and is left as it is.
    keys : Keys
        The attribute value of each tuple.
    arrivals : float64[n], ms, ascending
        When each tuple reaches the scheduler.
    services : float64[n] or [n, k], ms
        What it takes, the same on all instances or on each.
    latency : float, ms, default 0
        How long a message from an instance to the scheduler travels.

    """
    k = router.workers
    matrix = np.broadcast_to(services if services.ndim == 2 else services[:, None], (len(keys), k))
    scheduler = Scheduler(
        router.control.copy(), router.known.copy(), router.frequencies.copy(), router.works.copy(),
        router.means.copy(), router.estimated.copy(), np.empty(k, np.int32),
    )  # fmt: skip
    at = cells(keys, router.seed, router.rows, router.columns)
    settings = (router.window, router.tolerance, latency, router.settle == "clock")
    return Timeline(*_unfold(scheduler, keys.codes, at, arrivals, matrix, *settings))


@kernel
def _unfold(
    scheduler: Scheduler,
    codes: NDArray[np.int32],
    at: NDArray[np.int32],
    arrivals: NDArray[np.float64],
    services: NDArray[np.float64],
    window: int,
    tolerance: float,
    latency: float,
    clock: bool,
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.int8], int]:
    n, (k, rows, columns) = len(codes), scheduler.works.shape
    workers, finishes, states = np.empty(n, np.int32), np.empty(n), np.empty(n, np.int8)
    free, cumulated = np.zeros(k), np.zeros(k)
    instances = new_instances(k, rows, columns)
    # An instance sends matrices at most once in two windows, and a reply at most once for each of those messages.
    room = n // (2 * window) + 1
    sent_frequencies, sent_works = np.empty((room, rows, columns), np.int64), np.empty((room, rows, columns))
    mail = new_mail(room * (k + 1))
    matrices = 0
    deltas, replies = np.zeros(k), 0
    for i in range(n):
        letter = due(mail, arrivals[i])
        while letter >= 0:
            op, epoch, slot = mail.about[letter, 0], mail.about[letter, 1], mail.about[letter, 2]
            if slot >= 0:
                scheduler.frequencies[op] = sent_frequencies[slot]
                scheduler.works[op] = sent_works[slot]
                scheduler.means[op] = mean_cost(sent_frequencies[slot], sent_works[slot])
                receive_matrices(scheduler, op)
                replies = 0
            elif epoch == scheduler.control[EPOCH] and scheduler.control[STATE] in (SEND_ALL, WAIT_ALL):
                deltas[op] = mail.deltas[letter]
                replies += 1
                if replies == k:
                    synchronise(scheduler, deltas)
            remove(mail, letter)
            letter = due(mail, arrivals[i])
        states[i] = scheduler.control[STATE]
        op = submit(scheduler, at, codes[i])
        workers[i] = op
        free[op] = finishes[i] = max(arrivals[i], free[op]) + services[i, op]
        cumulated[op] += services[i, op]
        if states[i] == SEND_ALL:
            # The tuple carries a request; the answer leaves when it has been executed.
            delta = (finishes[i] if clock else cumulated[op]) - scheduler.estimated[op]
            post(mail, finishes[i] + latency, op, scheduler.control[EPOCH], -1, delta)
        if execute(instances, op, at, codes[i], services[i, op], window, tolerance):
            sent_frequencies[matrices] = instances.frequencies[op]
            sent_works[matrices] = instances.works[op]
            reset(instances, op)
            post(mail, finishes[i] + latency, op, 0, matrices, 0.0)
            matrices += 1
    return workers, finishes, states, int(mail.counts[1])
