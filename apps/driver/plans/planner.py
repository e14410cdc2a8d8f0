"""The planner of a query divides each batch between the workers, in waves, at its sources' requests.

As many sources as Spark has slots read a batch at the same time. A source announces itself, counts its part, sends the
counts, and gets its quotas. The sources that count at the same time are a *wave*: the planner answers when all
announced sources have sent their counts or have gone. So none waits for a source without a slot. A batch's waves share
one plan (``BatchGrouping.wave``).

With a checkpoint, a wave's plan is written once, before the answer. Repeated requests for a source of a batch get what
was written: from a task that runs again, a speculative one, or one of the next driver. A driver's written waves stay
valid, and the next driver plans the rest of the batch.
"""

import hashlib
import logging
import re
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from unskew.apps.checkpoint.location import Location, Where
from unskew.apps.driver.plans.plan_service import ListenAddress, PlanService
from unskew.apps.metrics.task_reports import PlanSummary
from unskew.apps.router.planner_protocol import QUOTAS, REPLICAS, pack_value, unpack_value
from unskew.errors import EnvironmentFault, UserError
from unskew.grouping.planned.counts import SourceCounts
from unskew.grouping.planned.interface import BatchGrouping
from unskew.grouping.state import pack_values, unpack_values

log = logging.getLogger(__name__)

FOLDER = ("unskew", "waves")
_WAVE = "wave"
# A replay needs its batch's waves, and the last one before.
_KEEP = 3  # batches

#: Creates a router for a batch, whose W may be an earlier run's.
Routers: TypeAlias = Callable[[int], BatchGrouping]


class StaleRequest(UserError):
    """The requested batch or its planner has ended."""

    exit_code = 1


class DataFramePlans:
    """Answers requests of the sources of a DataFrame's queries, until ``close``.

    Parameters
    ----------
    routers : batch → BatchGrouping
        Creates a router for a batch.
    checkpoint : str or Location, optional
        The query's checkpoint location. Without it, replicas last as long as this object and the query.
    name : str
        A name, if the query has other plans.
    active : callable, optional
        The ids of the running queries. A new query's request drops the plans of others.

    """

    def __init__(
        self,
        routers: Routers,
        checkpoint: Where | None,
        name: str = "",
        active: Callable[[], Collection[str]] | None = None,
    ) -> None:
        self._routers, self._checkpoint, self._name, self._active = routers, checkpoint, name, active
        self._changed = threading.Condition()
        self._queries: dict[str, BatchPlans] = {}
        self._closed = False

    def close(self) -> None:
        """Stop planning, and refuse waiting sources."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def summary(self, batch: int) -> PlanSummary | None:
        """As of ``Planner``."""
        with self._changed:
            found = (query.summary(batch) for query in self._queries.values())
            return next((summary for summary in found if summary is not None), None)

    def answer(self, source: Connection, question: Mapping[str, Any]) -> None:
        """Answer one attempt of a source."""
        batch, number, name = question["batch"], question["source"], question["query"]
        self._forget_ended(name)
        with self._changed:
            query = self._queries.get(name)
            if query is None:
                query = self._queries[name] = BatchPlans(self._routers, self._checkpoint, self._name)
            answer = query.join(source, batch, number)
        try:
            source.send_bytes(answer)
            if not answer.startswith(QUOTAS):
                counts = unpack_value(SourceCounts, source.recv_bytes())
                source.send_bytes(QUOTAS + self._answer_counts(query, source, batch, number, counts))
        finally:
            with self._changed:
                if not self._closed:  # refuses the waiting sources: they get no plan
                    query.leave(source)
                self._changed.notify_all()

    def _forget_ended(self, new: str) -> None:
        """Drop the plans of ended queries if a new one requests plans. It may fail without harm."""
        if self._active is None or new in self._queries:
            return
        try:
            active = {new, *self._active()}
        except Exception as error:  # noqa: BLE001  of py4j, or of a session that was stopped
            log.info("which queries run isn't known: %s", error)
            return
        with self._changed:
            self._queries = {query: plans for query, plans in self._queries.items() if query in active}

    def _answer_counts(
        self, query: "BatchPlans", source: Connection, batch: int, number: int, counts: SourceCounts
    ) -> bytes:
        """Wait for the wave of a source that has counted, and return its quotas."""
        with self._changed:
            query.count(source, batch, number, counts)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._closed or query.knows(batch, number))
            return query.quotas(batch, number)


class Planner(PlanService):
    """Serves one DataFrame's queries until ``close``. Raises ``EnvironmentFault`` if it can't listen at ``place``."""

    def __init__(self, routers: Routers, checkpoint: Where | None, place: ListenAddress, name: str = "") -> None:
        self._plans = DataFramePlans(routers, checkpoint, name)
        super().__init__(place)
        self.address = self.add(self._plans)

    def summary(self, batch: int) -> PlanSummary | None:
        """How a query's newest batch was planned; None if it has another number, or no source has counted.

        (Only the sources know how long they waited.)
        """
        return self._plans.summary(batch)


class BatchPlans:
    """The plans of one query's batches, in sequence. The caller has the planner's lock."""

    def __init__(self, routers: Routers, checkpoint: Where | None, name: str) -> None:
        self._routers, self._checkpoint, self._name = routers, checkpoint, name
        self._router: BatchGrouping | None = None
        self._waves: WaveLog | None = None
        self._batch = -1
        self._number = 0  # of the batch's next wave
        self._counting: dict[Connection | None, int] = {}
        self._counted: dict[int, SourceCounts] = {}
        self._planned: dict[int, bytes] = {}
        self._refused: dict[int, Exception] = {}

    def join(self, source: Connection | None, batch: int, number: int) -> bytes:
        """Record that a source is there. Return its quotas if planned, else what it needs for counting."""
        if batch > self._batch:
            self._begin(batch)
        self._require(batch)
        if number in self._planned:
            return QUOTAS + self._planned[number]
        assert self._router is not None
        self._counting[source] = number
        return REPLICAS + self._router.for_sources()

    def count(self, source: Connection | None, batch: int, number: int, counts: SourceCounts) -> None:
        """Record a source's counts."""
        self._require(batch)
        self._counting.pop(source, None)
        self._refused.pop(number, None)
        if number not in self._planned:
            self._counted.setdefault(number, counts)
        self._plan_if_counted()

    def leave(self, source: Connection | None) -> None:
        """Record that an attempt of a source has gone."""
        if self._counting.pop(source, None) is not None:
            self._plan_if_counted()

    def knows(self, batch: int, number: int) -> bool:
        """Whether a source needn't wait any more."""
        return batch != self._batch or number in self._planned or number in self._refused

    def quotas(self, batch: int, number: int) -> bytes:
        """The quotas of a source."""
        self._require(batch)
        if number not in self._planned:
            raise self._refused.get(number) or StaleRequest("the planner has ended")
        return self._planned[number]

    def summary(self, batch: int) -> PlanSummary | None:
        """As of ``Planner``."""
        if batch != self._batch or not self._number or self._router is None:
            return None
        return PlanSummary(self._number, self._router.added, self._router.split_count)

    def _require(self, batch: int) -> None:
        if batch != self._batch:
            raise StaleRequest(f"batch {batch} is over")

    def _begin(self, batch: int) -> None:
        """Begin a batch, in which an earlier driver's plans stay valid."""
        before, first = self._router, self._batch < 0
        self._router = router = self._routers(batch)
        if before is not None and before.identity == router.identity:
            router.load(before.save())
        router.begin()
        if self._checkpoint is not None and (before is None or before.identity != router.identity):
            self._waves = WaveLog(self._checkpoint, router.identity, self._name)
        self._number = 0
        self._counting, self._counted, self._planned, self._refused = {}, {}, {}, {}
        if self._waves is not None:
            if first:
                self._resume(self._waves, batch, router)
            self._waves.forget(batch - _KEEP)
        self._batch = batch

    def _resume(self, waves: "WaveLog", batch: int, router: BatchGrouping) -> None:
        before = waves.before(batch)
        if before is not None:
            router.load(before)
            router.begin()
        while (found := waves.read(batch, self._number)) is not None:
            self._adopt(found)

    def _adopt(self, data: bytes) -> None:
        """Adopt a wave's plan as the next one of the batch."""
        values: dict[str, Any] = unpack_values(_WAVE, data)
        assert self._router is not None
        self._router.load(values["state"])
        self._planned |= dict(zip(values["sources"].tolist(), values["quotas"].to_pylist(), strict=True))
        self._number += 1

    def _plan_if_counted(self) -> None:
        """Plan the wave if no source is counting, except attempts of sources that another attempt has counted."""
        assert self._router is not None
        while self._counted and all(n in self._counted or n in self._planned for n in self._counting.values()):
            sources, before = sorted(self._counted), self._router.save()
            try:
                quotas = self._router.wave([self._counted[number] for number in sources])
                values = {
                    "sources": np.array(sources, np.int64),
                    "quotas": pa.array([pack_value(each) for each in quotas], pa.large_binary()),
                    "state": self._router.save(),
                }
                written = pack_values(_WAVE, values)
                if self._waves is not None:
                    written = self._waves.create(self._batch, self._number, written)
            except Exception as error:  # noqa: BLE001  all waiting tasks get it, and may retry
                self._router.load(before)
                self._refused |= dict.fromkeys(sources, error)
                self._counted = {}
                return
            self._adopt(written)
            self._counted = {number: counts for number, counts in self._counted.items() if number not in self._planned}


class WaveLog:
    """The plans of waves in a checkpoint's files ``unskew/waves/NAME-ROUTER/BATCH-WAVE``.

    Routers with other parameters or another W (``Grouping.identity``) have separate waves, so that none adopts what it
    can't follow.
    """

    def __init__(self, checkpoint: Where, identity: str, name: str = "") -> None:
        router = hashlib.sha256(identity.encode()).hexdigest()[:16]
        self._folder = Location.of(checkpoint).folder(*FOLDER, f"{name or 'query'}-{router}")
        self._there: set[str] | None = None  # the files known to this driver

    def read(self, batch: int, number: int) -> bytes | None:
        """A wave's plan, or None if it wasn't written."""
        try:
            return self._folder.read(_format_name(batch, number))
        except FileNotFoundError:
            return None

    def before(self, batch: int) -> bytes | None:
        """The router's state after the last wave of earlier batches, if any."""
        for name in sorted((name for name in self._list_waves() if _parse_batch(name) < batch), reverse=True):
            with suppress(FileNotFoundError):  # a listing may have removed files
                values: dict[str, Any] = unpack_values(_WAVE, self._folder.read(name))
                return values["state"]
        return None

    def create(self, batch: int, number: int, data: bytes) -> bytes:
        """Write a wave's plan unless there is one, and return the one that is there."""
        name = _format_name(batch, number)
        written = data if self._folder.create(name, data) else self._folder.read(name)
        self._list_waves().add(name)
        return written

    def forget(self, batch: int) -> None:
        """Remove the plans of a batch and of earlier ones, except the very last wave's."""
        with suppress(EnvironmentFault):
            known = self._list_waves()
            old = sorted(name for name in known if _parse_batch(name) <= batch)
            for name in old if len(old) < len(known) else old[:-1]:
                self._folder.remove(name)
                known.discard(name)

    def _list_waves(self) -> set[str]:
        if self._there is None:
            self._there = {name for name in self._folder.names() if re.fullmatch(r"\d{12}-\d{6}", name)}
        return self._there


def _format_name(batch: int, number: int) -> str:
    return f"{batch:012d}-{number:06d}"


def _parse_batch(name: str) -> int:
    return int(name.partition("-")[0])
