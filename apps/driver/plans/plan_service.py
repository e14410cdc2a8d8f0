"""The service for all plans of a batch: a thread of the driver that answers sources' tasks.

Each call of a library function, such as ``keyed_map``, adds a ``PlanAnswerer``: ``batch_planner`` for plan states of
the feedback loop, ``planner`` for quotas of groupings that plan batches before routing. All calls of a process share
one service. Each task has a connection, and its requests begin with the call's number.
"""

import errno
import itertools
import logging
import re
import secrets
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Protocol

from pyspark.sql import SparkSession

from unskew.apps.router.planner_protocol import QUESTION, REFUSED, PlannerAddress, accept_connection, shut_socket
from unskew.errors import EnvironmentFault, UsageError, UserError
from unskew.grouping.state import unpack_values
from unskew.loopback import LOOPBACK
from unskew.spark.compat import is_remote

log = logging.getLogger(__name__)

#: Spark settings: the server's port (0: any free one), and whether there is one.
PORT, ENABLED = "spark.unskew.planner.port", "spark.unskew.planner.enabled"
RETRIES = "spark.port.maxRetries"

_LAST_PORT = 65_535
_MOMENT = 0.2  # s, between attempts to accept connections
_UNPROVEN = 64  # the most connections that haven't yet proved to know the secret
_PROVING = 1.0  # s that each of these has if others wait
_GONE = (ConnectionError, TimeoutError, EOFError)  # the task has ended, or another attempt was faster


class ListenAddress(NamedTuple):
    """Where a server listens."""

    host: str  #: The driver's address for executors.
    bind: str | None = None  #: The address to listen on. Default: ``host``.
    port: int = 0  #: The port. 0: any free one.
    retries: int = 0  #: How many next ports are tried if one is taken, as Spark does.


class PlanAnswerer(Protocol):
    """Answers the sources of one call."""

    def answer(self, source: Connection, question: Mapping[str, Any]) -> None:
        """Answer one attempt of a source. Errors are sent to it."""

    def close(self) -> None:
        """Stop answering, and refuse waiting sources."""


class PlanService:
    """Answers the sources of all calls until ``close``, or the process's end.

    Attributes
    ----------
    address : PlannerAddress
        Where it listens, and its tasks' secret.

    Raises ``EnvironmentFault`` if it can't listen there.
    """

    def __init__(self, place: ListenAddress) -> None:
        host, bind, port, retries = place
        self._calls: dict[int, PlanAnswerer] = {}
        self._claims: dict[str, tuple[str, PlanAnswerer]] = {}  # checkpoint → the last run, and its call
        self._numbers = itertools.count()
        self._connections = threading.Condition()  # of `_open` and `_unproven`
        self._open: set[socket.socket] = set()
        self._unproven: dict[socket.socket, float] = {}  # and since when (monotonic), oldest first
        self._closed = False
        self._server = _open_socket((bind or host).strip("[]"), port, retries if port else 0)
        self.address = PlannerAddress(host.strip("[]"), self._server.getsockname()[1], secrets.token_bytes(32))
        threading.Thread(target=self._accept, name="unskew planner", daemon=True).start()

    def add(self, call: PlanAnswerer) -> PlannerAddress:
        """Add a call, and return the address for its sources."""
        with self._connections:
            number = next(self._numbers)
            self._calls[number] = call
        return replace(self.address, call=number)

    def claim(self, checkpoint: str, run: str, call: PlanAnswerer) -> bool:
        """Record that a query's run uses a call. False: it has used another one before, so both are in it.

        Spark allows a checkpoint one run at a time. So if another run has used another call, that run has ended, and
        its call is dropped.
        """
        with self._connections:
            last, other = self._claims.get(checkpoint, (run, call))
            if other is not call:
                if last == run:
                    return False
                self._calls = {number: each for number, each in self._calls.items() if each is not other}
            self._claims[checkpoint] = run, call
            return True

    def close(self) -> None:
        """Stop listening, and refuse waiting tasks."""
        with self._connections:
            self._closed = True
            still, calls = [self._server, *self._open], [*self._calls.values()]
        for call in calls:
            call.close()
        for each in still:
            shut_socket(each)  # or `accept` and readers would go on
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
            except (OSError, RuntimeError) as error:  # too many open files or threads
                if not self._closed:
                    log.warning("the query's planner can't take a connection: %s", error)
                    time.sleep(_MOMENT)

    def _make_room(self) -> None:
        """Wait for room for another unproved connection, or end the oldest one.

        Tasks prove themselves at once, so many can take turns. Intruders don't.
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
            # The task itself notices errors of the connection, and can't be sent them.
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

    def _answer(self, source: Connection) -> None:
        """Answer one task's requests until it has gone."""
        question: dict[str, Any] = unpack_values(QUESTION, source.recv_bytes())
        with self._connections:
            call = self._calls.get(question["call"])
        if call is None:
            raise EnvironmentFault("a later query has gone on from this call's checkpoint; make the call again")
        call.answer(source, question)


_opening = threading.Lock()
_opened: dict[ListenAddress, PlanService] = {}


def get_plan_service(place: ListenAddress) -> PlanService:
    """The process's service at a listen address, started by the first call.

    Nothing ends it: queries outlive their DataFrame, and others may be made from it.

    Raises ``EnvironmentFault`` if it can't listen there.
    """
    with _opening:
        if place not in _opened:
            _opened[place] = PlanService(place)
        return _opened[place]


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
    raise AssertionError  # the last attempt returned or raised


def require_listen_address(spark: SparkSession, what: str, valid: str) -> ListenAddress:
    """The listen address of a server of this session, for what needs feedback from the workers.

    Raises ``UsageError`` if this process has no driver, saying what needs one and what is valid without, and as
    ``choose_listen_address`` does.
    """
    place = choose_listen_address(spark)
    if place is None:
        raise UsageError(
            f"{what} needs feedback from the workers, which has no way to the driver through Spark Connect, nor if "
            f"{ENABLED} is false; valid then: {valid}"
        )
    return place


def choose_listen_address(spark: SparkSession) -> ListenAddress | None:
    """The listen address of a server of this session.

    None: this process has no driver (Spark Connect), or ``spark.unskew.planner.enabled`` is false.

    Raises ``UsageError`` if ``spark.unskew.planner.port`` isn't a port.
    """
    if is_remote(spark) or spark.conf.get(ENABLED, "true") == "false":
        return None
    conf, given = spark.sparkContext.getConf(), spark.conf.get(PORT, "0") or "0"
    if not re.fullmatch(r"[0-9]{1,5}", given) or (port := int(given)) > _LAST_PORT:
        raise UsageError(f"{PORT} is {given!r}; valid: 1 to {_LAST_PORT}, or 0 for any free one")
    host = LOOPBACK if conf.get("spark.master", "").startswith("local") else conf.get("spark.driver.host") or LOOPBACK
    bind = None if host == LOOPBACK else conf.get("spark.driver.bindAddress")
    return ListenAddress(host, bind, port, int(conf.get(RETRIES) or 16))
