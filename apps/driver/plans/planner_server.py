"""A thread of the driver that answers a query's tasks, each over a connection of its own."""

import errno
import logging
import re
import secrets
import socket
import threading
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection
from typing import NamedTuple

from pyspark.sql import SparkSession

from unskew.apps.router.planner_protocol import REFUSED, PlannerAddress, accept_connection, shut_socket
from unskew.errors import EnvironmentFault, UsageError, UserError
from unskew.loopback import LOOPBACK
from unskew.spark.compat import is_remote

log = logging.getLogger(__name__)

#: Settings of Spark: a port for the server (0: any free one), and whether there is one.
PORT, ENABLED = "spark.unskew.planner.port", "spark.unskew.planner.enabled"
RETRIES = "spark.port.maxRetries"

_LAST_PORT = 65_535
_MOMENT = 0.2  # s; until the next connection is tried
_UNPROVEN = 64  # connections that haven't proved yet that they know the secret
_PROVING = 1.0  # s that each of these has, if others wait for its place
_GONE = (ConnectionError, TimeoutError, EOFError)  # the task has ended, or another attempt of it has won


class ListenAddress(NamedTuple):
    """Where a server listens.

    Attributes
    ----------
    host : str
        The driver's address, as executors reach it.
    bind : str, optional
        The address to listen on. Default: ``host``.
    port : int
        The port. 0: any free one.
    retries : int
        Where a port is taken, so many of the next ones are tried, as Spark does with its own ports.

    """

    host: str
    bind: str | None = None
    port: int = 0
    retries: int = 0


class TaskServer(ABC):
    """Answers tasks until ``close``.

    Attributes
    ----------
    address : PlannerAddress
        Where it listens, and the secret by which it knows its tasks.

    Raises
    ------
    EnvironmentFault
        It can't listen there.

    """

    def __init__(self, place: ListenAddress) -> None:
        host, bind, port, retries = place
        self._changed = threading.Condition()
        # Of `_open` and `_unproven`; an answer may hold `_changed` while it waits for a store.
        self._connections = threading.Condition()
        self._open: set[socket.socket] = set()
        self._unproven: dict[socket.socket, float] = {}  # and since when (monotonic), the oldest first
        self._closed = False
        self._server = _open_socket((bind or host).strip("[]"), port, retries if port else 0)
        self.address = PlannerAddress(host.strip("[]"), self._server.getsockname()[1], secrets.token_bytes(32))
        threading.Thread(target=self._accept, name="unskew planner", daemon=True).start()

    def close(self) -> None:
        """Listen no longer. Tasks that wait are refused."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        with self._connections:
            still = [self._server, *self._open]
        for each in still:
            shut_socket(each)  # or `accept` and those who read would go on
        self._server.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                self._make_room()
                connected, _ = self._server.accept()
                with self._connections:
                    self._unproven[connected] = time.monotonic()
                try:
                    threading.Thread(
                        target=self._serve, args=[connected], name="unskew planner's task", daemon=True
                    ).start()
                except RuntimeError:
                    self._end(connected)
                    raise
            except (OSError, RuntimeError) as error:  # too many open files, or no more threads
                if not self._closed:
                    log.warning("the query's planner can't take a connection: %s", error)
                    time.sleep(_MOMENT)

    def _make_room(self) -> None:
        """Wait until one more may come of those that haven't proved themselves, or end the oldest of them.

        Tasks prove themselves at once, and many at a time wait for each other here. Whoever holds a place doesn't.
        """
        with self._connections:
            while len(self._unproven) >= _UNPROVEN:
                oldest, since = next(iter(self._unproven.items()))
                left = since + _PROVING - time.monotonic()
                if not self._connections.wait_for(lambda: len(self._unproven) < _UNPROVEN, left):
                    del self._unproven[oldest]
                    shut_socket(oldest)

    def _end(self, connected: socket.socket) -> None:
        connected.close()
        with self._connections:
            self._open.discard(connected)
            self._unproven.pop(connected, None)
            self._connections.notify_all()

    def _serve(self, connected: socket.socket) -> None:
        """Answer one attempt of a source."""
        with self._connections:
            self._open.add(connected)
            if self._closed:
                shut_socket(connected)
        try:
            # What goes wrong with the connection itself can't be told to the task, and it notices.
            with (
                suppress(OSError, EOFError, AuthenticationError),
                accept_connection(connected, self.address.secret) as source,
            ):
                with self._connections:
                    self._unproven.pop(connected, None)
                    self._connections.notify_all()
                try:
                    self._answer(source)
                except Exception as error:
                    if not isinstance(error, (*_GONE, UserError)):
                        log.exception("a task gets no plan")
                    source.send_bytes(REFUSED + f"{type(error).__name__}: {error}".encode())
        finally:
            self._end(connected)

    @abstractmethod
    def _answer(self, source: Connection) -> None:
        """Answer the questions of one task, until it has gone. Errors are told to it."""


def _open_socket(at: str, port: int, retries: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in at else socket.AF_INET
    retries = min(retries, _LAST_PORT - port)
    for more in range(retries + 1):
        try:
            return socket.create_server((at, port + more), family=family)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and more < retries:
                continue
            to = f" to {port + more}" if more else ""
            raise EnvironmentFault(
                f"the query's planner can't listen at {at}:{port}{to} ({error.strerror or error}); "
                f"spark.driver.bindAddress and {PORT} name another address and port"
            ) from error
    raise AssertionError  # the last one has returned or raised


def choose_listen_address(spark: SparkSession) -> ListenAddress | None:
    """Where a server of this session listens.

    None: there is no driver of ours (Spark Connect), or ``spark.unskew.planner.enabled`` is false.

    Raises
    ------
    UsageError
        ``spark.unskew.planner.port`` is no port.

    """
    if is_remote(spark) or spark.conf.get(ENABLED, "true") == "false":
        return None
    conf, given = spark.sparkContext.getConf(), spark.conf.get(PORT, "0") or "0"
    if not re.fullmatch(r"[0-9]{1,5}", given) or (port := int(given)) > _LAST_PORT:
        raise UsageError(f"{PORT} is {given!r}; valid: 1 to {_LAST_PORT}, or 0 for any free one")
    host = LOOPBACK if conf.get("spark.master", "").startswith("local") else conf.get("spark.driver.host") or LOOPBACK
    bind = None if host == LOOPBACK else conf.get("spark.driver.bindAddress")
    return ListenAddress(host, bind, port, int(conf.get(RETRIES) or 16))
