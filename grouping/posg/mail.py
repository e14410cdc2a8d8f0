"""Messages from POSG's instances to its scheduler, each on its way until its time."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.compiled import kernel


class Mail(NamedTuple):
    """Messages under way to the scheduler, in no order."""

    times: NDArray[np.float64]  # when each arrives, ms
    about: NDArray[np.int64]  # [:, 4], from which instance, epoch of a reply, slot of matrices or -1, its number
    deltas: NDArray[np.float64]  # of a reply
    counts: NDArray[np.int64]  # [2], under way, and ever posted


@kernel
def new_mail(room: int) -> Mail:
    """An empty bag for ``room`` messages."""
    return Mail(np.empty(room), np.empty((room, 4), np.int64), np.empty(room), np.zeros(2, np.int64))


@kernel
def post(mail: Mail, time: float, op: int, epoch: int, slot: int, delta: float) -> None:
    """Send a reply (``slot`` -1) or matrices."""
    end = mail.counts[0]
    mail.times[end], mail.deltas[end] = time, delta
    mail.about[end, 0], mail.about[end, 1], mail.about[end, 2] = op, epoch, slot
    mail.about[end, 3] = mail.counts[1]
    mail.counts[0] += 1
    mail.counts[1] += 1


@kernel
def due(mail: Mail, now: float) -> int:
    """The first message to have arrived by now, or -1; of several at one moment, the one that was sent first."""
    first = -1
    for i in range(mail.counts[0]):
        if mail.times[i] <= now and (
            first < 0
            or mail.times[i] < mail.times[first]
            or (mail.times[i] == mail.times[first] and mail.about[i, 3] < mail.about[first, 3])
        ):
            first = i
    return first


@kernel
def remove(mail: Mail, letter: int) -> None:
    """Take a message out."""
    mail.counts[0] -= 1
    last = mail.counts[0]
    mail.times[letter], mail.deltas[letter] = mail.times[last], mail.deltas[last]
    mail.about[letter] = mail.about[last]
