"""POSG as in the paper, event by event: one scheduler, k instances with FIFO queues, and messages between them.

``Posg`` gets feedback by intervals. Here a request travels with a tuple and is answered when that has been executed,
sketches leave an instance at the tuple that made them stable, and messages take effect on arrival. The compiled steps
are the same: ``scheduler``, ``instances`` and ``sketch``.
"""

from copy import deepcopy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.kernel_cache import kernel
from unskew.grouping.keys import Keys
from unskew.grouping.posg.instances import execute_tuple, new_instances, reset_instance
from unskew.grouping.posg.posg import Posg
from unskew.grouping.posg.scheduler import (
    EPOCH,
    SEND_ALL,
    STATE,
    WAIT_ALL,
    Scheduler,
    mean_cost,
    receive_matrices,
    submit_tuple,
    synchronise_accounts,
)
from unskew.grouping.posg.sketch import find_cells


class Timeline(NamedTuple):
    """Where and when n tuples were executed."""

    workers: NDArray[np.int32]  # [n]
    finishes: NDArray[np.float64]  # [n], ms
    states: NDArray[np.int8]  # [n], the scheduler's state when it decided
    messages: int  # sketches and replies sent; requests travel with tuples


def run_timeline(
    router: Posg,
    keys: Keys,
    arrivals: NDArray[np.float64],
    services: NDArray[np.float64],
    *,
    latency: float = 0.0,
) -> Timeline:
    """Run n tuples through the scheduler and the k workers of a new router, which isn't changed.

    ``arrivals`` (ms, ascending) are when the tuples reach the scheduler, ``services`` how long each takes to execute,
    on every instance ([n]) or on each of the k ([n, k]), in ms. A message travels for ``latency`` (ms) from an instance
    to the scheduler. Time O(log 1/δ + log k) a tuple.
    """
    k = router.workers
    matrix = np.broadcast_to(services if services.ndim == 2 else services[:, None], (len(keys), k))
    scheduler = deepcopy(router.scheduler())
    at = find_cells(keys, router.seed, router.rows, router.columns)
    settings = (router.window, router.tolerance, latency, router.settle == "clock")
    return Timeline(*_run_events(scheduler, keys.codes, at, arrivals, matrix, *settings))


class PendingMessages(NamedTuple):
    """Messages in transit from instances to the scheduler, unordered."""

    times: NDArray[np.float64]  # when each arrives, ms
    about: NDArray[np.int64]  # [:, 4], sending instance, epoch of a reply, slot of matrices or -1, message's number
    deltas: NDArray[np.float64]  # of a reply
    counts: NDArray[np.int64]  # [2], messages in transit, and messages ever sent


@kernel
def _run_events(
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
    # An instance sends matrices at most once per two windows, and at most one reply for each.
    room = n // (2 * window) + 1
    sent_frequencies, sent_works = np.empty((room, rows, columns), np.int64), np.empty((room, rows, columns))
    messages = make_messages(room * (k + 1))
    matrices = 0
    deltas, replies = np.zeros(k), 0
    for i in range(n):
        message = find_due(messages, arrivals[i])
        while message >= 0:
            op, epoch, slot = messages.about[message, 0], messages.about[message, 1], messages.about[message, 2]
            if slot >= 0:
                scheduler.frequencies[op] = sent_frequencies[slot]
                scheduler.works[op] = sent_works[slot]
                scheduler.means[op] = mean_cost(sent_frequencies[slot], sent_works[slot])
                receive_matrices(scheduler, op)
                replies = 0
            elif epoch == scheduler.control[EPOCH] and scheduler.control[STATE] in (SEND_ALL, WAIT_ALL):
                deltas[op] = messages.deltas[message]
                replies += 1
                if replies == k:
                    synchronise_accounts(scheduler, deltas)
            remove_message(messages, message)
            message = find_due(messages, arrivals[i])
        states[i] = scheduler.control[STATE]
        op = submit_tuple(scheduler, at, codes[i])
        workers[i] = op
        free[op] = finishes[i] = max(arrivals[i], free[op]) + services[i, op]
        cumulated[op] += services[i, op]
        if states[i] == SEND_ALL:
            # The tuple carries a request, answered when it has been executed.
            delta = (finishes[i] if clock else cumulated[op]) - scheduler.estimated[op]
            send_message(messages, finishes[i] + latency, op, scheduler.control[EPOCH], -1, delta)
        if execute_tuple(instances, op, at, codes[i], services[i, op], window, tolerance):
            sent_frequencies[matrices] = instances.frequencies[op]
            sent_works[matrices] = instances.works[op]
            reset_instance(instances, op)
            send_message(messages, finishes[i] + latency, op, 0, matrices, 0.0)
            matrices += 1
    return workers, finishes, states, int(messages.counts[1])


@kernel
def make_messages(room: int) -> PendingMessages:
    """Empty room for ``room`` messages."""
    return PendingMessages(np.empty(room), np.empty((room, 4), np.int64), np.empty(room), np.zeros(2, np.int64))


@kernel
def send_message(messages: PendingMessages, time: float, op: int, epoch: int, slot: int, delta: float) -> None:
    """Send a reply or matrices, to arrive at ``time`` (ms). For a reply, ``slot`` is −1."""
    end = messages.counts[0]
    messages.times[end], messages.deltas[end] = time, delta
    messages.about[end, 0], messages.about[end, 1], messages.about[end, 2] = op, epoch, slot
    messages.about[end, 3] = messages.counts[1]
    messages.counts[0] += 1
    messages.counts[1] += 1


@kernel
def find_due(messages: PendingMessages, now: float) -> int:
    """The first message that has arrived by now, and of simultaneous ones the one sent first, or −1."""
    first = -1
    for i in range(messages.counts[0]):
        if messages.times[i] <= now and (
            first < 0
            or messages.times[i] < messages.times[first]
            or (messages.times[i] == messages.times[first] and messages.about[i, 3] < messages.about[first, 3])
        ):
            first = i
    return first


@kernel
def remove_message(messages: PendingMessages, message: int) -> None:
    messages.counts[0] -= 1
    last = messages.counts[0]
    messages.times[message], messages.deltas[message] = messages.times[last], messages.deltas[last]
    messages.about[message] = messages.about[last]
