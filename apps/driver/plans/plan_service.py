"""The service for every plan of a batch: a thread of the driver that answers the tasks of sources.

A call of ours, such as ``keyed_map``, adds what answers for it (``PlanAnswerer``): ``batch_planner`` the plan states of
the feedback loop, ``planner`` the quotas of groupings that plan a batch before it is routed. All calls of a process
share one service. Each task asks over a separate connection, and its question begins with the number of its call.
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


class PlanAnswerer(Protocol):
    """What answers the sources of one call."""

    def answer(self, source: Connection, question: Mapping[str, Any]) -> None:
        """Answer one attempt of a source. Errors are sent to it."""

    def close(self) -> None:
        """Answer no more. Sources that wait are refused."""


class PlanService:
    """Answers the sources of all calls until ``close``, or as long as its process lasts.

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
        self._calls: dict[int, PlanAnswerer] = {}
        self._claims: dict[str, tuple[str, PlanAnswerer]] = {}  # checkpoint → the run that asked last, and its call
        self._numbers = itertools.count()
        self._connections = threading.Condition()  # of `_open` and `_unproven`
        self._open: set[socket.socket] = set()
        self._unproven: dict[socket.socket, float] = {}  # and since when (monotonic), the oldest first
        self._closed = False
        self._server = _open_socket((bind or host).strip("[]"), port, retries if port else 0)
        self.address = PlannerAddress(host.strip("[]"), self._server.getsockname()[1], secrets.token_bytes(32))
        threading.Thread(target=self._accept, name="unskew planner", daemon=True).start()

    def add(self, call: PlanAnswerer) -> PlannerAddress:
        """Answer for one call more. What its sources ask with."""
        with self._connections:
            number = next(self._numbers)
            self._calls[number] = call
        return replace(self.address, call=number)

    def claim(self, checkpoint: str, run: str, call: PlanAnswerer) -> bool:
        """Note that a run of a query asks by a call. False: it has asked by another one before, so both are in it.

        Spark lets a checkpoint have one run at a time. So if another run has asked by another call, that run is over,
        and its call is forgotten.
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
        """Listen no longer. Tasks that wait are refused."""
        with self._connections:
            self._closed = True
            still, calls = [self._server, *self._open], [*self._calls.values()]
        for call in calls:
            call.close()
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

    def _answer(self, source: Connection) -> None:
        """Answer the questions of one task, until it has gone."""
        question: dict[str, Any] = unpack_values(QUESTION, source.recv_bytes())
        with self._connections:
            call = self._calls.get(question["call"])
        if call is None:
            raise EnvironmentFault("a later query has gone on from this call's checkpoint; make the call again")
        call.answer(source, question)


_opening = threading.Lock()
_opened: dict[ListenAddress, PlanService] = {}


def get_plan_service(place: ListenAddress) -> PlanService:
    """The service of this process that listens there. The first call starts it.

    Nothing ends it: a DataFrame's end says nothing, because a query runs without it, and others may be made of it.

    Raises
    ------
    EnvironmentFault
        It can't listen there.

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
    raise AssertionError  # the last one has returned or raised


def require_listen_address(spark: SparkSession, what: str, valid: str) -> ListenAddress:
    """Where a server of this session listens, for what needs feedback from the workers.

    Raises
    ------
    UsageError
        There is no driver of ours. It says what needs one, and what is valid without; or as ``choose_listen_address``.

    """
    place = choose_listen_address(spark)
    if place is None:
        raise UsageError(
            f"{what} needs feedback from the workers, which has no way to the driver through Spark Connect, nor if "
            f"{ENABLED} is false; valid then: {valid}"
        )
    return place


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
