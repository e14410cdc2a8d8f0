"""The stream: text messages that are keys, all of them once and then some at random, at a steady rate."""

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event

import numpy as np
from confluent_kafka import Producer
from numpy.typing import NDArray

from unskew.deploy.client.connection import Connection

_SLICE = 0.01  # s from one handful of tuples to the next
_AT_ONCE = 10_000


def fill(connection: Connection, topic: str, sources: int, keys: int) -> None:
    """Every key once."""
    producer = _producer(connection)
    for start in range(0, keys, _AT_ONCE):
        _send(producer, topic, sources, np.arange(start, min(start + _AT_ONCE, keys)))
        producer.flush()


@contextmanager
def steady(connection: Connection, topic: str, sources: int, keys: int, rate: float) -> Iterator[None]:
    """Meanwhile tuples of random keys come from another process."""
    context = multiprocessing.get_context("spawn")
    over = context.Event()
    process = context.Process(target=_feed, args=(connection, topic, sources, keys, rate, over))
    process.start()
    try:
        yield
    finally:
        over.set()
        process.join()


def _feed(connection: Connection, topic: str, sources: int, keys: int, rate: float, over: Event) -> None:
    producer, random = _producer(connection), np.random.default_rng(0)
    begun, sent = time.monotonic(), 0
    while not over.wait(_SLICE):
        due = int((time.monotonic() - begun) * rate) - sent
        _send(producer, topic, sources, random.integers(0, keys, due))
        sent += due
    producer.flush()


def _producer(connection: Connection) -> Producer:
    return Producer(connection.client(**{"linger.ms": 0, "enable.idempotence": True}))


def _send(producer: Producer, topic: str, sources: int, keys: NDArray[np.int64]) -> None:
    """A key's tuples are all in one partition, so a result's offset tells which tuple it is of."""
    for key in keys.tolist():
        producer.produce(topic, str(key), partition=key % sources)
    producer.poll(0)
