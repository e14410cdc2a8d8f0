"""A process that writes batches of one part by a protocol, and that stops or kills itself at one of the steps.

`python -m tests.deploy.kafka.attempt SERVERS TOPIC PROTOCOL FIRST LAST STEP SIGNAL`: it writes batches FIRST to LAST,
and gets the signal before it takes the step in the last one.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from confluent_kafka import Producer

from unskew.deploy.kafka.connection import Connection
from unskew.deploy.kafka.transactions import Interrupted, Number, Part

RECORDS = 50  # of a batch

#: The steps, as methods of `Part`, and what comes after the last one.
STEPS = {
    "open": "_open",
    "init": "_init",
    "read": "_read",
    "begin": "_begin",
    "number": "_put_number",
    "records": "put",
    "acknowledge": "_acknowledge",
    "commit": "_commit",
    "committed": "",
    "gap": "",  # what a mutant does apart, and ought to do at once or in another order
}


class NumberBefore(Part):
    """Commits the number in a transaction of its own, before that of the records."""

    def _put_number(self, number: Number) -> None:
        super()._put_number(number)
        self._required.commit_transaction()
        strike("gap")
        self._required.begin_transaction()


class NumberOutside(Part):
    """Writes the number by another producer, when the records are committed."""

    def _put_number(self, number: Number) -> None:
        pass

    def _commit(self) -> None:
        super()._commit()
        strike("gap")
        other = Producer(self._connection.client(log_level=0))
        other.produce(self._commits, self._number.packed(), self._name.encode(), self._partition)
        other.flush()


class NumberBeforeOutside(NumberOutside):
    """Writes the number by another producer, before the records are committed."""

    def _commit(self) -> None:
        other = Producer(self._connection.client(log_level=0))
        other.produce(self._commits, self._number.packed(), self._name.encode(), self._partition)
        other.flush()
        strike("gap")
        Part._commit(self)


class NoFence(Part):
    """Has an id of its own in each process, so that none fences another."""

    def _open(self) -> None:
        name = self._name
        self._name = f"{name}-{os.getpid()}-{id(self)}"
        super()._open()
        self._name = name


class ReadBefore(Part):
    """Reads the last number before it fences who may write it."""

    def _init(self) -> None:
        self._before = super()._read()
        strike("gap")
        super()._init()

    def _read(self) -> Number | None:
        return self._before


PROTOCOLS: dict[str, type[Part]] = {
    kind.__name__: kind for kind in (Part, NumberBefore, NumberOutside, NumberBeforeOutside, NoFence, ReadBefore)
}


def commits_of(topic: str) -> str:
    """The topic of numbers beside a topic of records."""
    return f"{topic}-commits"


def write(part: Part, topic: str, batch: int, *, planned_ms: int | None = None) -> bool:
    """Write the records of a batch, which are the same in each attempt. False: they had been written."""
    if not part.begin(topic, Number(batch, batch if planned_ms is None else planned_ms)):
        return False
    values = [f"{batch}-{i}".encode() for i in range(RECORDS)]
    for half in (values[: RECORDS // 2], values[RECORDS // 2 :]):
        part.put([{"key": value, "value": value} for value in half])
    part.finish()
    return True


def strike(step: str) -> None:
    """Stop or kill this process, once, if that is the step to do it at."""
    if os.environ.get("STEP") == step:
        del os.environ["STEP"]
        os.kill(os.getpid(), getattr(signal, os.environ["SIGNAL"]))


def striking(step: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """The method of a step, before which this process stops or dies."""

    def run(*of: Any, **named: Any) -> Any:
        strike(step)
        return method(*of, **named)

    return run


def main() -> None:
    """Write the batches."""
    servers, topic, protocol, first, last, step, os.environ["SIGNAL"] = sys.argv[1:]
    kind = PROTOCOLS[protocol]
    part = kind(Connection(servers), f"{topic}-0", commits_of(topic), 0)
    for batch in range(int(first), int(last)):
        write(part, topic, batch)
    os.environ["STEP"] = step
    if STEPS[step]:
        setattr(part, STEPS[step], striking(step, getattr(part, STEPS[step])))
    try:
        written = write(part, topic, int(last))
    except Interrupted as error:
        print(f"interrupted: {error}")
    else:
        print("written" if written else "found")
    strike("committed")


if __name__ == "__main__":
    main()
