"""The planner of a query: a thread of the driver that divides each batch between the workers, in waves.

Sources read their parts of a batch side by side, as many at a time as Spark has slots. A source says that it is there,
counts its part, sends its counts, and gets its quotas. A *wave* is whoever is counting: the planner answers when all
sources that have said they are there have sent their counts, or have gone. So nobody waits for a source that has no
slot. A batch's waves have one plan together, as ``Planned.wave`` says.

Beside a checkpoint a wave's plan is written before it is answered, whole and once. Whoever asks again for a source of a
batch gets what was written: a task that runs again, a speculative one, or a task of the next driver. The waves that a
driver has written stand, and the next one plans the rest of the batch.
"""

import logging
import secrets
import socket
import threading
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from unskew.apps.checkpoint.location import Location, Where
from unskew.apps.planning.wire import QUOTAS, REFUSED, REPLICAS, Address, answering, packed, unpacked
from unskew.apps.spark import is_remote
from unskew.deploy.servers.loopback import LOOPBACK
from unskew.grouping import Grouping
from unskew.grouping.planned.counts import Counts
from unskew.grouping.planned.planned import Planned
from unskew.grouping.state import pack, unpack

log = logging.getLogger(__name__)

FOLDER = ("unskew", "waves")
_WAVE = "wave"
# A replay needs the waves of its own batch, and the last one before it.
_KEEP = 3  # batches


class Over(Exception):
    """The batch that a source asks for is over."""


class Planner:
    """The planner of one query. It is a context manager, which ends it.

    Parameters
    ----------
    router : Planned
        A new router. The planner has it for itself.
    checkpoint : str or Location, optional
        The query's checkpoint location. Without it the replicas last as long as this object.
    host : str
        The driver's address, as executors reach it.
    bind : str, optional
        The address to listen on. Default: ``host``.
    name : str
        A name for it, if the same query has others.

    """

    def __init__(
        self, router: Planned, checkpoint: Where | None, host: str, bind: str | None = None, name: str = ""
    ) -> None:
        self._router = router
        self._fresh = router.save()
        self._waves = None if checkpoint is None else Waves(checkpoint, name)
        self._changed = threading.Condition()
        self._run = ""
        self._over: set[str] = set()  # runs of the query before this one
        self._batch = -1
        self._number = 0  # of the batch's next wave
        self._counting: set[Connection] = set()
        self._counted: dict[int, Counts] = {}
        self._planned: dict[int, bytes] = {}
        self._closed = False
        self._server = socket.create_server((bind or host, 0))
        self.address = Address(host, self._server.getsockname()[1], secrets.token_bytes(32))
        threading.Thread(target=self._accept, name="unskew planner", daemon=True).start()

    def __enter__(self) -> Self:
        """The planner itself, which listens."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Listen no longer. Sources that wait are refused."""
        self.close()

    def close(self) -> None:
        """Listen no longer. Sources that wait are refused."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # or `accept` would go on
        self._server.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                connected, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[connected], name="unskew planner's source", daemon=True).start()

    def _serve(self, connected: socket.socket) -> None:
        """Answer one attempt of a source."""
        with suppress(OSError, EOFError, AuthenticationError), answering(connected, self.address.secret) as source:
            try:
                self._answer(source)
            except (OSError, EOFError):
                raise
            except Exception as error:
                log.exception("a source gets no plan")
                source.send_bytes(REFUSED + f"{type(error).__name__}: {error}".encode())
            finally:
                self._leave(source)

    def _answer(self, source: Connection) -> None:
        hello: dict[str, Any] = unpack("hello", source.recv_bytes())
        run, batch, number = hello["run"], hello["batch"], hello["source"]
        answer = self._join(source, run, batch, number)
        source.send_bytes(answer)
        if not answer.startswith(QUOTAS):
            counts = unpacked(Counts, source.recv_bytes())
            source.send_bytes(QUOTAS + self._divided(source, batch, number, counts))

    def _join(self, source: Connection, run: str, batch: int, number: int) -> bytes:
        """Note that a source is there. Returns its quotas if the plan has them, else the replicas to count with."""
        with self._changed:
            if run in self._over or (run == self._run and batch < self._batch):
                raise Over(f"batch {batch} is over")
            if run != self._run:
                self._over.add(self._run)
                self._run, self._batch = run, -1
            if batch > self._batch:
                self._begin(batch)
            if number in self._planned:
                return QUOTAS + self._planned[number]
            self._counting.add(source)
            return REPLICAS + self._router.save()

    def _divided(self, source: Connection, batch: int, number: int, counts: Counts) -> bytes:
        """The quotas of a source that has counted. It waits for the others of its wave."""
        with self._changed:
            self._require(batch)
            if number not in self._planned:
                self._counted.setdefault(number, counts)
            self._counting.discard(source)
            self._plan_if_counted()
            self._changed.wait_for(lambda: number in self._planned or self._batch != batch or self._closed)
            self._require(batch)
            return self._planned[number]

    def _require(self, batch: int) -> None:
        if self._closed or batch != self._batch:
            raise Over(f"batch {batch} is over")

    def _leave(self, source: Connection) -> None:
        with self._changed:
            if source in self._counting:
                self._counting.discard(source)
                self._plan_if_counted()

    def _begin(self, batch: int) -> None:
        """Begin a batch: its sources plan together. What an earlier driver has planned of it stands."""
        first = self._batch < 0
        self._batch, self._number = batch, 0
        self._counting, self._counted, self._planned = set(), {}, {}
        self._changed.notify_all()
        if self._waves is not None:
            if first:
                self._resume(self._waves, batch)
            self._waves.forget(batch - _KEEP)
        if not self._number:
            self._router.begin()

    def _resume(self, waves: "Waves", batch: int) -> None:
        before = waves.before(batch)
        self._router.load(self._fresh)
        if before is not None:
            try:
                self._router.load(before)
            except ValueError as error:
                log.warning("the planner can't read its replicas for batch %d (%s): it starts cold", batch, error)
        while (found := waves.read(batch, self._number)) is not None:
            self._adopt(found)

    def _adopt(self, data: bytes) -> None:
        """Let a wave's plan stand, as the next one of the batch."""
        values: dict[str, Any] = unpack(_WAVE, data)
        self._router.load(values["state"])
        self._planned |= dict(zip(values["sources"].tolist(), values["quotas"].to_pylist(), strict=True))
        self._number += 1

    def _plan_if_counted(self) -> None:
        """Plan the wave if nobody is counting."""
        while self._counted and not self._counting:
            sources = sorted(self._counted)
            quotas = self._router.wave([self._counted[number] for number in sources])
            values = {
                "sources": np.array(sources, np.int64),
                "quotas": pa.array([packed(each) for each in quotas], pa.large_binary()),
                "state": self._router.save(),
            }
            written = pack(_WAVE, values)
            if self._waves is not None:
                written = self._waves.create(self._batch, self._number, written)
            self._adopt(written)
            self._counted = {number: counts for number, counts in self._counted.items() if number not in self._planned}
            self._changed.notify_all()


def planner(spark: SparkSession, router: Grouping, checkpoint: Where | None, name: str = "") -> Planner | None:
    """The planner of a stream in this session, for a grouping that plans batches. Parameters as for ``Planner``.

    None: the grouping plans none, or there is no driver of ours (Spark Connect). Then each source plans its own part.
    """
    if not isinstance(router, Planned) or is_remote(spark):
        return None
    conf = spark.sparkContext.getConf()
    if conf.get("spark.master", "").startswith("local"):
        return Planner(router, checkpoint, LOOPBACK, name=name)
    host = conf.get("spark.driver.host") or LOOPBACK
    return Planner(router, checkpoint, host, conf.get("spark.driver.bindAddress"), name)


class Waves:
    """The plans of waves beside a checkpoint, each in a file: ``unskew/waves/BATCH-WAVE``.

    Parameters
    ----------
    checkpoint : str or Location
        The query's checkpoint location.
    name : str
        The planner's name.

    """

    def __init__(self, checkpoint: Where, name: str = "") -> None:
        self._folder = Location.of(checkpoint).folder(*FOLDER, *([name] if name else []))
        self._there: set[str] | None = None  # the files that this driver knows of

    def read(self, batch: int, number: int) -> bytes | None:
        """A wave's plan. None: it wasn't written."""
        try:
            return self._folder.read(_name(batch, number))
        except FileNotFoundError:
            return None

    def before(self, batch: int) -> bytes | None:
        """The router's state after the last wave of the batches before. None: there is none."""
        for name in sorted((name for name in self._known() if _batch(name) < batch), reverse=True):
            with suppress(FileNotFoundError):  # a list may have what is no longer there
                values: dict[str, Any] = unpack(_WAVE, self._folder.read(name))
                return values["state"]
        return None

    def create(self, batch: int, number: int, data: bytes) -> bytes:
        """Write a wave's plan, or leave what is there. Returns what is there now."""
        name = _name(batch, number)
        self._known().add(name)
        return data if self._folder.create(name, data) else self._folder.read(name)

    def forget(self, batch: int) -> None:
        """Remove the plans of a batch and of those before it, except the last wave's of all."""
        known = self._known()
        old = sorted(name for name in known if _batch(name) <= batch)
        for name in old if len(old) < len(known) else old[:-1]:
            self._folder.remove(name)
            known.discard(name)

    def _known(self) -> set[str]:
        if self._there is None:
            self._there = {name for name in self._folder.names() if name.replace("-", "").isdigit()}
        return self._there


def _name(batch: int, number: int) -> str:
    return f"{batch:012d}-{number:06d}"


def _batch(name: str) -> int:
    return int(name.partition("-")[0])
