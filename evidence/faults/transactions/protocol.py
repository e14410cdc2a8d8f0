"""The protocol of ``unskew.kafka.transactions`` step by step, and mutants of it, each wrong in another way.

A process is armed for a step. Before it takes the step it stops or kills itself.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from signal import Signals
from typing import Any

from confluent_kafka import Producer

from unskew.kafka.transactions import BatchId, TransactionalWriter

#: The steps, as methods of `TransactionalWriter`, and what comes after the last one.
STEPS = {
    "open": "_open",
    "init": "_init",
    "mark": "_mark",
    "read": "_read",
    "begin": "_begin",
    "number": "_put_batch_id",
    "records": "put",
    "acknowledge": "_acknowledge",
    "commit": "_commit",
    "committed": "",
    "gap": "",  # what a mutant does apart, and ought to do at once or in another order
}


class NumberBefore(TransactionalWriter):
    """Commits the number in a transaction of its own, before that of the records."""

    def _put_batch_id(self, number: BatchId) -> None:
        super()._put_batch_id(number)
        self._current_producer.commit_transaction()
        strike("gap")
        self._current_producer.begin_transaction()


class NumberOutside(TransactionalWriter):
    """Writes the number by another producer, when the records are committed."""

    def _put_batch_id(self, number: BatchId) -> None:
        pass

    def _commit(self) -> None:
        super()._commit()
        strike("gap")
        other = Producer(self._connection.client(log_level=0))
        other.produce(self._commits, self._number.to_bytes(), self._name.encode(), self._partition)
        other.flush()


class NumberBeforeOutside(NumberOutside):
    """Writes the number by another producer, before the records are committed."""

    def _commit(self) -> None:
        other = Producer(self._connection.client(log_level=0))
        other.produce(self._commits, self._number.to_bytes(), self._name.encode(), self._partition)
        other.flush()
        strike("gap")
        TransactionalWriter._commit(self)  # noqa: SLF001  not that of the class above


class NoFence(TransactionalWriter):
    """Has an id of its own in each process, so that none fences another."""

    def _open(self) -> None:
        name = self._name
        self._name = f"{name}-{os.getpid()}-{id(self)}"
        super()._open()
        self._name = name


class ReadBefore(TransactionalWriter):
    """Reads the last number before it fences who may write it."""

    def _init(self) -> None:
        self._before = super()._read(self._mark())
        strike("gap")
        super()._init()

    def _read(self, mark: int) -> BatchId | None:
        return self._before


PROTOCOLS: dict[str, type[TransactionalWriter]] = {
    kind.__name__: kind
    for kind in (TransactionalWriter, NumberBefore, NumberOutside, NumberBeforeOutside, NoFence, ReadBefore)
}


def commits_of(topic: str) -> str:
    """The topic of numbers beside a topic of records."""
    return f"{topic}-commits"


@dataclass
class _Armed:
    """The step that this process is armed for."""

    step: str
    signal: Signals
    times: int
    tell: Callable[[], None]


_armed: list[_Armed] = []  # one, or none


def arm(step: str, signal: Signals, times: int = 1, tell: Callable[[], None] = lambda: None) -> None:
    """Let this process get a signal when it comes to a step for the ``times``-th time, once; just before, ``tell``."""
    _armed[:] = [_Armed(step, signal, times, tell)]


def disarm() -> None:
    """Let this process go on, whatever step it comes to."""
    _armed.clear()


def strike(step: str) -> None:
    """Stop or kill this process, if it is armed for this step."""
    for armed in [each for each in _armed if each.step == step]:
        armed.times -= 1
        if not armed.times:
            disarm()
            armed.tell()
            os.kill(os.getpid(), armed.signal)


def striking(kind: type[TransactionalWriter]) -> type[TransactionalWriter]:
    """The protocol of a class, by a class whose methods look before each step whether the process is armed for it."""
    methods = {method: _after_strike(step, getattr(kind, method)) for step, method in STEPS.items() if method}
    return type(kind.__name__, (kind,), methods)


def _after_strike(step: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def run(*of: Any, **named: Any) -> Any:
        strike(step)
        return method(*of, **named)

    return run
