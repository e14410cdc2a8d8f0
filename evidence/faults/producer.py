"""The campaign's producer, a process to be killed: it numbers its messages and notes what the broker acknowledged.

    python -m evidence.faults.producer BOOTSTRAP TOPIC LIFE SEED RATE NOTES [--burst KIND N]

A message's Kafka key is LIFE-NUMBER: no two have the same. NOTES gets a line for each acknowledged one: its key,
partition and offset; one of a transaction counts when that is committed. What the topic holds is the truth; the notes
say that it lacks nothing that was acknowledged.
"""

import argparse
import contextlib
import os
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.oracle.messages import fuzzed, large, largest, valid
from unskew.errors import UserError
from unskew.kafka.connection import Connection
from unskew.kafka.topics import count_partitions
from unskew.producers.datasets.country import SKEW_KEY, load_countries

# The time (ms) of messages from a far future, 2100, and how far other messages are ahead: ten days.
_FAR_MS = 4_102_444_800_000
_AHEAD_MS = 10 * 86_400_000
_FUTURE = 0.01  # share of a burst
_VALID = 0.7  # share of a transaction
_HOT = 0.8
_TICK = 0.05  # s
_LOOK_EVERY = 2.0  # s from one look at the number of partitions to the next
#: Sizes of large messages, bytes.
LARGE = (10_000, 70_000)
_MOST_BYTES = 2_000_000  # of a message, by the client: what is too large is the broker's to say
_IN_TRANSACTION = 300  # messages at most
_TRANSACTION_MS = 10_000  # after which the broker aborts a transaction that its producer left open
_PATIENCE = 60.0  # s


class Numbered:
    """Sends numbered messages, to the topic's partitions in turns, and notes those that the broker acknowledges."""

    def __init__(self, bootstrap: str, topic: str, life: str, notes: Path, **settings: str | int) -> None:
        self._connection = Connection(bootstrap)
        usual = {"enable.idempotence": True, "linger.ms": 20, "delivery.timeout.ms": 600_000, "log_level": 0}
        sizes = {"message.max.bytes": _MOST_BYTES, "queue.buffering.max.kbytes": 1 << 16}
        self._producer = Producer(self._connection.client(**usual | sizes | settings))
        self._topic, self._life = topic, life
        self._notes = notes.open("a", buffering=1 << 16)
        self._sent = 0
        self._partitions = count_partitions(self._connection, topic) or 1
        self._looked = self._noted = time.monotonic()

    def send(self, value: bytes | None, ms: int | None = None) -> None:
        """Send a message, as soon as there is room for it; ``ms`` is its time, by default now."""
        key = f"{self._life}-{self._sent}".encode()
        stamp = round(1000 * time.time()) if ms is None else ms
        while True:
            try:
                partition = self._sent % self._partitions
                self._producer.produce(
                    self._topic, value, key, partition=partition, timestamp=stamp, on_delivery=self._arrived
                )
                break
            except BufferError:
                self._producer.poll(0.1)
        self._sent += 1

    def tend(self) -> None:
        """Note the acknowledgements that have come, and now and then look for new partitions."""
        self._producer.poll(0)
        now = time.monotonic()
        if now - self._noted > 0.5:
            self._notes.flush()
            self._noted = now
        if now - self._looked > _LOOK_EVERY:
            with contextlib.suppress(UserError, KafkaException):  # no broker now
                self._partitions = count_partitions(self._connection, self._topic) or self._partitions
            self._looked = time.monotonic()

    def finish(self) -> None:
        """Wait until all messages are acknowledged."""
        while self._producer.flush(1.0):
            pass
        self._notes.close()

    def _arrived(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._notes.write(_note(message))


class InTransactions(Numbered):
    """Sends numbered messages in transactions, and notes those of the transactions that it has committed."""

    def __init__(self, bootstrap: str, topic: str, life: str, notes: Path) -> None:
        bounds = dict.fromkeys(("transaction.timeout.ms", "delivery.timeout.ms"), _TRANSACTION_MS)
        super().__init__(bootstrap, topic, life, notes, **{"transactional.id": f"{topic}-{life}"}, **bounds)
        self._lines: list[str] = []
        self._producer.init_transactions(_PATIENCE)

    def begin(self) -> None:
        """Begin a transaction."""
        self._lines.clear()
        self._producer.begin_transaction()

    def end(self, *, commit: bool) -> None:
        """Commit the transaction, or abort it.

        Raises KafkaException: It isn't known which of the two has happened.
        """
        try:
            if commit:
                self._producer.commit_transaction(_PATIENCE)
                self._notes.writelines(self._lines)
            else:
                self._producer.flush(_PATIENCE)  # so that the topic has messages that don't count
                self._producer.abort_transaction(_PATIENCE)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self._producer.abort_transaction(_PATIENCE)

    def leave(self) -> None:
        """End this process with the transaction open, as a producer that is killed does."""
        self._producer.flush(_PATIENCE)
        self._notes.close()
        os._exit(0)

    def _arrived(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._lines.append(_note(message))


def _note(message: Message) -> str:
    return f"{(message.key() or b'').decode()} {message.partition()} {message.offset()}\n"


def steady(to: Numbered, rng: random.Random, rate: float) -> None:
    """Send valid messages at a rate (messages/s) for ever, most of the hot key; what a pause delays is left out."""
    names = load_countries()
    before = time.monotonic()
    due = 0.0
    while True:
        now = time.monotonic()
        due = min(due + (now - before) * rate, 2 * rate)
        before = now
        for _ in range(int(due)):
            name = SKEW_KEY if rng.random() < _HOT else rng.choice(names)
            to.send(b'{"country":"%s"}' % name.encode())
        due -= int(due)
        to.tend()
        time.sleep(_TICK)


def future_from() -> int:
    """The time (ms) from which on messages count as from the future now; valid messages are far before, others after.

    A run is shorter than ten days, and its clock isn't shifted by a day.
    """
    return round(1000 * time.time()) + 86_400_000


def burst(make: Callable[[random.Random], bytes | None], to: Numbered, messages: int, rng: random.Random) -> None:
    """Send so many messages, a few of them from a far future."""
    for number in range(messages):
        value = make(rng)
        to.send(value, _FAR_MS if rng.random() < _FUTURE else None)
        if number % 500 == 0:
            to.tend()
    to.finish()


def ahead(to: Numbered, messages: int, rng: random.Random) -> None:
    """Send so many messages that are valid except for their time, which is ten days ahead."""
    for _ in range(messages):
        to.send(valid(rng), round(1000 * time.time()) + _AHEAD_MS)
    to.finish()


def transactions(to: InTransactions, number: int, rng: random.Random) -> None:
    """Send so many transactions, valid and malformed messages in each; half of them abort, and the last stays open."""
    for _ in range(number):
        to.begin()
        for _ in range(rng.randrange(1, _IN_TRANSACTION)):
            to.send(valid(rng) if rng.random() < _VALID else fuzzed(rng))
        to.end(commit=rng.random() < 0.5)
        to.tend()
    to.begin()
    to.send(valid(rng))
    to.leave()


#: Kind of a burst → how it is sent: messages from the fuzzer, large valid ones, some as large as the broker takes.
BURSTS: dict[str, Callable[[Any, int, random.Random], None]] = {
    "malformed": partial(burst, fuzzed),
    "large": partial(burst, lambda rng: large(rng, rng.randrange(*LARGE))),
    "largest": partial(burst, largest),
    "future": ahead,
    "transactions": transactions,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("life")
    parser.add_argument("seed")
    parser.add_argument("rate", type=float)
    parser.add_argument("notes", type=Path)
    parser.add_argument(
        "--burst", nargs=2, metavar=("KIND", "N"), help=f"N messages or transactions: {', '.join(BURSTS)}"
    )
    given = parser.parse_args()
    where = given.bootstrap, given.topic, given.life, given.notes
    rng = random.Random(f"{given.seed}-{given.life}")
    if given.burst is None:
        steady(Numbered(*where), rng, given.rate)
    else:
        kind, number = given.burst
        BURSTS[kind](InTransactions(*where) if kind == "transactions" else Numbered(*where), int(number), rng)


if __name__ == "__main__":
    main()
