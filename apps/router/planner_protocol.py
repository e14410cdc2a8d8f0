"""The protocol of planner and sources: a socket, on which each proves that it knows the query's secret."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from threading import Timer
from typing import Any, TypeVar

from unskew.grouping.planned.counts import SourceCounts
from unskew.grouping.planned.quotas import Quotas
from unskew.grouping.state import pack_values, unpack_values

Named = TypeVar("Named", SourceCounts, Quotas)

_HANDSHAKE = 10.0  # s; for the whole of it
#: The name of a question's values, of which ``call`` says who answers.
QUESTION = "question"
#: What an answer begins with: what is known of replicas, to count with, the quotas, or why there are none.
REPLICAS, QUOTAS, REFUSED = b"r", b"q", b"x"
#: The answer to who asks for a batch's plan state: it is written.
BEGUN = b"b"


@dataclass(frozen=True)
class PlannerAddress:
    """Where a query's planner listens."""

    host: str  #: As executors reach it.
    port: int
    secret: bytes = field(repr=False)  #: Whoever knows it may ask.
    call: int = 0  #: Which of the calls that the service answers for.


def accept_connection(connected: socket.socket, secret: bytes) -> Connection:
    """The planner's end of a connection, whose socket stays open until it is closed, too.

    Raises ``AuthenticationError`` if the other end doesn't know the secret, and ``OSError`` or ``EOFError`` if it
    doesn't prove that in time.
    """
    with _limit_time(connected):
        connection = _wrap_socket(connected)
        deliver_challenge(connection, secret)
        answer_challenge(connection, secret)
        return connection


def open_connection(connected: socket.socket, secret: bytes) -> Connection:
    """A source's end of a connection. As ``accept_connection``."""
    with _limit_time(connected):
        connection = _wrap_socket(connected)
        answer_challenge(connection, secret)
        deliver_challenge(connection, secret)
        return connection


def shut_socket(connected: socket.socket) -> None:
    """End a connection, or a server, in which another thread may be reading, sending or waiting."""
    with suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


@contextmanager
def _limit_time(connected: socket.socket) -> Iterator[None]:
    """End the connection if the block takes too long: with a limit of each read, a byte now and then is enough."""
    timer = Timer(_HANDSHAKE, shut_socket, [connected])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _wrap_socket(connected: socket.socket) -> Connection:
    connected.settimeout(None)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A source waits for as long as others count. A machine that is gone is noticed within half a minute.
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, seconds in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, name):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), seconds)
    return Connection(os.dup(connected.fileno()))


def pack_value(value: SourceCounts | Quotas) -> bytes:
    """Counts or quotas as bytes."""
    return pack_values(type(value).__name__, value._asdict())


def unpack_value(kind: type[Named], data: bytes) -> Named:
    """The counts or quotas from the bytes of ``pack_value``."""
    values: dict[str, Any] = unpack_values(kind.__name__, data)
    return kind(**values)
