"""The campaign's producer, a process to be killed: it numbers its messages and notes what the broker acknowledged.

    python -m benchmarks.faults.producer BOOTSTRAP TOPIC LIFE SEED RATE NOTES [--malformed N]

A message's Kafka key is LIFE-NUMBER: no two have the same. NOTES gets a line for each acknowledged one: its key,
partition and offset. What the topic holds is the truth; the notes say that it lacks nothing that was acknowledged.
"""

import argparse
import contextlib
import random
import time
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from benchmarks.faults import fuzz
from unskew.deploy.client.connection import Connection
from unskew.deploy.client.topics import partitions_of
from unskew.errors import UserError
from unskew.producers.generators.country import SKEW_KEY, countries

#: The time (ms) of messages from the future: 2100.
FUTURE_MS = 4_102_444_800_000
_FUTURE = 0.01  # share of the malformed
_HOT = 0.8
_TICK = 0.05  # s
_LOOK_EVERY = 2.0  # s, at how many partitions there are


class Numbered:
    """Sends numbered messages round robin to all partitions that there are, and notes what arrives."""

    def __init__(self, bootstrap: str, topic: str, life: str, notes: Path) -> None:
        self._connection = Connection(bootstrap)
        self._producer = Producer(
            self._connection.client(
                **{"enable.idempotence": True, "linger.ms": 20, "delivery.timeout.ms": 600_000, "log_level": 0}
            )
        )
        self._topic, self._life = topic, life
        self._notes = notes.open("a", buffering=1 << 16)
        self._sent = 0
        self._partitions = partitions_of(self._connection, topic) or 1
        self._looked = self._noted = time.monotonic()

    def send(self, value: bytes | None, ms: int | None = None) -> None:
        """Send one, when there is room."""
        key = f"{self._life}-{self._sent}".encode()
        stamp = round(1000 * time.time()) if ms is None else ms
        while True:
            try:
                place = self._sent % self._partitions
                self._producer.produce(
                    self._topic, value, key, partition=place, timestamp=stamp, on_delivery=self._arrived
                )
                break
            except BufferError:
                self._producer.poll(0.1)
        self._sent += 1

    def tend(self) -> None:
        """Hear what has arrived, and now and then look for new partitions."""
        self._producer.poll(0)
        now = time.monotonic()
        if now - self._noted > 0.5:
            self._notes.flush()
            self._noted = now
        if now - self._looked > _LOOK_EVERY:
            with contextlib.suppress(UserError, KafkaException):  # no broker now
                self._partitions = partitions_of(self._connection, self._topic) or self._partitions
            self._looked = time.monotonic()

    def finish(self) -> None:
        """Wait until all have arrived."""
        while self._producer.flush(1.0):
            pass
        self._notes.close()

    def _arrived(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._notes.write(f"{(message.key() or b'').decode()} {message.partition()} {message.offset()}\n")


def steady(to: Numbered, rng: random.Random, rate: float) -> None:
    """Valid messages, most of the hot key, at a rate (messages/s), for ever; what a pause costs is not made up for."""
    names = countries()
    before = time.monotonic()
    owed = 0.0
    while True:
        now = time.monotonic()
        owed = min(owed + (now - before) * rate, 2 * rate)
        before = now
        for _ in range(int(owed)):
            name = SKEW_KEY if rng.random() < _HOT else rng.choice(names)
            to.send(b'{"country":"%s"}' % name.encode())
        owed -= int(owed)
        to.tend()
        time.sleep(_TICK)


def malformed(to: Numbered, rng: random.Random, messages: int) -> None:
    """So many from the fuzzer."""
    for number in range(messages):
        to.send(fuzz.message(rng), FUTURE_MS if rng.random() < _FUTURE else None)
        if number % 500 == 0:
            to.tend()
    to.finish()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("life")
    parser.add_argument("seed")
    parser.add_argument("rate", type=float)
    parser.add_argument("notes", type=Path)
    parser.add_argument("--malformed", type=int, default=0)
    given = parser.parse_args()
    to = Numbered(given.bootstrap, given.topic, given.life, given.notes)
    rng = random.Random(f"{given.seed}-{given.life}")
    if given.malformed:
        malformed(to, rng, given.malformed)
    else:
        steady(to, rng, given.rate)


if __name__ == "__main__":
    main()
