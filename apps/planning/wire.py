"""How a planner and the sources speak: over a socket, each sure that the other knows the query's secret."""

import socket
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any, TypeVar

from unskew.grouping.planned.counts import Counts
from unskew.grouping.planned.quotas import Quotas
from unskew.grouping.state import pack, unpack

Named = TypeVar("Named", Counts, Quotas)

#: What an answer begins with: the replicas to count with, the quotas, or why there are none.
REPLICAS, QUOTAS, REFUSED = b"r", b"q", b"x"


@dataclass(frozen=True)
class Address:
    """Where a query's planner listens.

    Attributes
    ----------
    host, port
        As executors reach it.
    secret : bytes
        Whoever knows it may ask.

    """

    host: str
    port: int
    secret: bytes = field(repr=False)


def answering(connected: socket.socket, secret: bytes) -> Connection:
    """The planner's end of a connection. Raises ``AuthenticationError`` if the other end doesn't know the secret."""
    connection = _lasting(connected)
    deliver_challenge(connection, secret)
    answer_challenge(connection, secret)
    return connection


def asking(connected: socket.socket, secret: bytes) -> Connection:
    """A source's end of a connection. Raises as ``answering``."""
    connection = _lasting(connected)
    answer_challenge(connection, secret)
    deliver_challenge(connection, secret)
    return connection


def _lasting(connected: socket.socket) -> Connection:
    connected.settimeout(None)
    # A source waits for as long as others count. A machine that is gone is noticed all the same.
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Connection(connected.detach())


def packed(value: Counts | Quotas) -> bytes:
    """Counts or quotas as bytes."""
    return pack(type(value).__name__, value._asdict())


def unpacked(kind: type[Named], data: bytes) -> Named:
    """The counts or quotas from the bytes of ``packed``."""
    values: dict[str, Any] = unpack(kind.__name__, data)
    return kind(**values)
