"""A source's side of the planner, in a Spark task."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection
from typing import Any

from unskew.apps.router.planner_protocol import (
    QUESTION,
    QUOTAS,
    REFUSED,
    REPLICAS,
    PlannerAddress,
    open_connection,
    pack_value,
    unpack_value,
)
from unskew.errors import EnvironmentFault
from unskew.grouping.planned.counts import SourceCounts
from unskew.grouping.planned.quotas import Quotas
from unskew.grouping.state import pack_values

_PATIENCE = 10.0  # s; to connect


def connect_server(address: PlannerAddress) -> Connection:
    """A connection to a server of the driver's."""
    with socket.create_connection((address.host, address.port), _PATIENCE) as connected:
        return open_connection(connected, address.secret)


def make_question(address: PlannerAddress, **values: Any) -> bytes:
    """The first question over a connection."""
    return pack_values(QUESTION, {"call": address.call, **values})


@contextmanager
def report_unreachable(address: PlannerAddress) -> Iterator[None]:
    """Inside the block the server is reached.

    Raises ``EnvironmentFault`` if it isn't.
    """
    try:
        yield
    except (OSError, EOFError, AuthenticationError) as error:
        raise EnvironmentFault(
            f"an executor can't reach the query's planner at the driver's {address.host}:{address.port} "
            f"({error or type(error).__name__}); the setting spark.driver.host names an address that it reaches"
        ) from error


def request_answer(to: Connection, question: bytes) -> tuple[bytes, bytes]:
    """Ask; the kind of the answer, and its data.

    Raises ``EnvironmentFault`` if the planner has no plan.
    """
    to.send_bytes(question)
    answer = to.recv_bytes()
    kind, data = answer[:1], answer[1:]
    if kind == REFUSED:
        raise EnvironmentFault(f"the query's planner has no plan: {data.decode()}")
    return kind, data


class PlannerSession:
    """One attempt of a source to route its part of a batch of a query, whose id stays when it starts again.

    As long as it isn't closed and hasn't sent its counts, the planner waits for it. ``replicas`` is what the source's
    router must load before it counts (``BatchGrouping.for_sources``), or None if its ``quotas`` are there.

    Raises ``EnvironmentFault`` if the planner can't be reached.
    """

    def __init__(self, address: PlannerAddress, query: str, batch: int, source: int) -> None:
        self._address = address
        self.replicas: bytes | None = None
        self.quotas: Quotas | None = None
        with report_unreachable(address):
            self._connection = connect_server(address)
            self._ask(make_question(address, query=query, batch=batch, source=source))

    def close(self) -> None:
        """Disconnect; the planner no longer waits for this attempt."""
        self._connection.close()

    def request_quotas(self, counts: SourceCounts) -> Quotas:
        """Send the source's counts, and wait for its quotas.

        Raises ``EnvironmentFault`` if the planner has ended, or has no plan for the source.
        """
        try:
            self._ask(pack_value(counts))
        except (OSError, EOFError) as error:
            raise EnvironmentFault(
                f"the query's planner at {self._address.host}:{self._address.port} has ended "
                f"({error or type(error).__name__})"
            ) from error
        assert self.quotas is not None
        return self.quotas

    def _ask(self, question: bytes) -> None:
        kind, data = request_answer(self._connection, question)
        if kind == REPLICAS:
            self.replicas = data
        elif kind == QUOTAS:
            self.quotas = unpack_value(Quotas, data)
