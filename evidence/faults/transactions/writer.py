"""A process that writes batches of one part, and what we know of it: it is told a batch, and says what became of it.

It lives for many batches, so its later ones begin with the producer that it has from the one before.
"""

import ctypes
import os
import signal as signals
import struct
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from multiprocessing.context import ForkServerContext
from typing import Any

import psutil

from evidence.faults.transactions.protocol import PROTOCOLS, arm, commits_of, disarm, strike, striking
from evidence.faults.waiting import await_condition
from unskew.errors import EnvironmentFault
from unskew.kafka.connection import Connection
from unskew.kafka.transactions import (
    BatchId,
    TransactionalDelivery,
    TransactionalWriter,
    TransactionInterrupted,
    deliver_records,
)

#: A record's value: its part, batch, and number in the batch.
VALUE = struct.Struct(">HII")
#: A batch's records are put in so many lists.
PUTS = 4
_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
_STOPPING = 10.0  # s
# Where two threads start processes at a time, each might wait for those of the other.
_STARTING = threading.Lock()


@dataclass(frozen=True)
class Written:
    """Where and how parts are written.

    ``servers``, ``topic``: The brokers, and the topic of records. ``protocol``: Whose transactions: a name in
    ``PROTOCOLS``. ``records``: The number of a batch's records.
    """

    servers: str
    topic: str
    protocol: str
    records: int


@dataclass(frozen=True)
class Order:
    """What a process is told: the batch to write.

    ``batch``: Its number. ``retrying``: Whether the process begins again where another one interrupts it, as a driver
    does (``deliver_records``), or says so, as a task does (``TransactionalDelivery``). ``step``: The step before which
    it gets the signal; empty: none. ``signal``: SIGKILL or SIGSTOP. ``times``: The signal comes when the process is at
    the step for this time.
    """

    batch: int
    retrying: bool
    step: str = ""
    signal: signals.Signals = signals.SIGKILL
    times: int = 1


@dataclass(frozen=True)
class Answer:
    """What a process says of a batch.

    ``outcome``: ``written``; ``found``: it had been written; ``interrupted``, ``failed``, or ``wrong``: an error that
    no user ought to see. ``began``: How often the process began with the batch. ``said``: The error.
    """

    outcome: str
    began: int
    said: str = ""

    @property
    def done(self) -> bool:
        """Whether the batch is written, as the process says."""
        return self.outcome in ("written", "found")


class Struck:
    """What a process says when it gets the signal at its step."""


class Gone:
    """What there is instead of an answer when a process has ended."""


class Writer:
    """A process of a part, which has written nothing so far."""

    def __init__(self, part: int, written: Written) -> None:
        self._pipe, there = _context().Pipe()
        self._process = _context().Process(target=serve, args=(there, part, written), daemon=True)
        with _STARTING:
            self._process.start()
        there.close()  # so that its end is the end of the pipe
        self.pid = self._process.pid or 0
        self.closed = False

    def write(self, order: Order) -> None:
        """Tell it to write a batch. What comes of that is an answer."""
        with suppress(OSError):  # it has ended, as the answer will say
            self._pipe.send(order)

    def answer(self, patience: float) -> Answer | Struck | Gone | None:
        """The next thing that it says, or None after so many seconds."""
        try:
            return self._pipe.recv() if self._pipe.poll(patience) else None
        except (EOFError, OSError):
            return Gone()

    def stop(self) -> None:
        """Stop it (SIGSTOP), and wait until it stands still."""
        self._signal(signals.SIGSTOP)
        self.await_stop()

    def await_stop(self) -> None:
        """Wait until it stands still."""
        with suppress(psutil.NoSuchProcess):
            await_condition(lambda: psutil.Process(self.pid).status() == psutil.STATUS_STOPPED, _STOPPING, every=0.001)

    def wake(self) -> None:
        """Let it go on (SIGCONT)."""
        self._signal(signals.SIGCONT)

    def kill(self) -> None:
        """Kill it (SIGKILL). What it has said before can still be read."""
        self._signal(signals.SIGKILL)

    def close(self) -> None:
        """Kill it, and forget it."""
        if self.closed:
            return
        self.closed = True
        self.kill()
        with _STARTING:
            self._process.join(_STOPPING)
            with suppress(ValueError):  # it still hasn't ended
                self._process.close()
        self._pipe.close()

    def _signal(self, sign: signals.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, sign)


def prepare() -> None:
    """Start the server from which processes are forked: they need no time to import anything."""
    context = _context()
    context.set_forkserver_preload([__name__])
    first = context.Process(target=time.sleep, args=(0,))
    first.start()
    first.join()


def _context() -> ForkServerContext:
    return get_context("forkserver")


def serve(pipe: Pipe, part: int, written: Written) -> None:
    """Write each batch that comes through the pipe, and say what became of it, until the pipe ends."""
    signals.signal(signals.SIGINT, signals.SIG_IGN)  # Ctrl-C is for the command
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signals.SIGKILL)  # it may be stopped when the command dies
    kind = striking(PROTOCOLS[written.protocol])
    connection = Connection(written.servers)
    while True:
        try:
            order: Order = pipe.recv()
        except (EOFError, OSError):
            os._exit(0)  # without waiting for clients
        found = kind.of(connection, f"{written.topic}-{part}", commits_of(written.topic), part)
        pipe.send(_written(_Counted(found), part, written, order, pipe))


def _written(part: Any, number: int, written: Written, order: Order, pipe: Pipe) -> Answer:
    """Write a batch; what became of it."""
    if order.step:
        arm(order.step, order.signal, order.times, lambda: pipe.send(Struck()))
    batch = BatchId(order.batch, order.batch)
    try:
        if order.retrying:
            deliver_records(part, written.topic, batch, lambda: records(number, order.batch, written.records))
        else:
            once = TransactionalDelivery(part, written.topic, batch)
            for some in records(number, order.batch, written.records):
                once.put(some)
            once.finish()
        strike("committed")
    except TransactionInterrupted as error:
        return Answer("interrupted", part.began, str(error))
    except EnvironmentFault as error:
        return Answer("failed", part.began, str(error))
    except Exception:  # noqa: BLE001  the command says so
        return Answer("wrong", part.began, traceback.format_exc())
    finally:
        disarm()
    return Answer("written" if part.begins else "found", part.began)


class _Counted:
    """A writer that counts how often it begins."""

    def __init__(self, writer: TransactionalWriter) -> None:
        self._writer = writer
        self.began = 0
        self.begins = False  # whether the last time the batch was still to be written

    def begin(self, topic: str, number: BatchId) -> bool:
        self.began += 1
        self.begins = self._writer.begin(topic, number)
        return self.begins

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)


def records(part: int, batch: int, number: int) -> Iterator[list[dict[str, Any]]]:
    """A batch's records, the same each time, in some lists."""
    for some in _in_lists(range(number)):
        values = [VALUE.pack(part, batch, record) for record in some]
        yield [{"key": value, "value": value} for value in values]


def _in_lists(numbers: range) -> Iterable[range]:
    size = -(-len(numbers) // PUTS)
    return (numbers[at : at + size] for at in range(0, len(numbers), size))
