"""The observer: how a closed window's tuples were distributed over the workers, and at which cost."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from operator import attrgetter
from typing import Any, Self

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.apps.checkpoint.versions import Totals
from unskew.apps.worker.result_messages import ResultMessage, format_window, make_message
from unskew.grouping import measures
from unskew.grouping.keys import sum_by_key

HOTTEST = 10
_START = attrgetter("start_ms")


@dataclass(frozen=True)
class HotKey:
    """One of a window's keys with the most tuples."""

    key: str
    tuples: int
    count: int
    workers: int


@dataclass(frozen=True)
class Distribution:
    """The distribution of one closed window, or of one task's share of its keys."""

    #: Start and end of the window.
    start_ms: int
    end_ms: int
    #: int64[W]: Each worker's tuples, sum of counts, and distinct keys. If workers were removed within the window, W is
    #: the number before.
    tuples: NDArray[np.int64]
    counts: NDArray[np.int64]
    keys: NDArray[np.int64]
    distinct_keys: int  #: The number of distinct keys over all workers.
    hottest: list[HotKey]  #: At most ``HOTTEST`` keys, hottest first.

    def fields(self, totals: Totals) -> dict[str, Any]:
        """The window's metrics. ``totals`` must include the window."""
        duration = self.end_ms - totals.started_ms
        return {
            "STD_DEV": measures.std_dev(self.tuples),
            "DIST_COST": measures.dist_cost(int(self.keys.sum()), self.distinct_keys),
            "THROUGHPUT_RATIO": 1000 * totals.tuples / duration if duration > 0 else 0.0,
            "TOTAL_COUNT": totals.tuples,
            "DURATION": duration,
            "imbalance": measures.load_imbalance(self.tuples),
            "imbalanceFraction": measures.imbalance_fraction(self.tuples),
            "tuples": int(self.tuples.sum()),
            "count": int(self.counts.sum()),
            "distinctKeys": self.distinct_keys,
            "rejected": totals.rejected,
            "late": totals.late,
            "skipped": totals.skipped,
        }

    def pack(self) -> bytes:
        """Serialise the distribution for ``unpack``."""
        return orjson.dumps(self, option=orjson.OPT_SERIALIZE_NUMPY)

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """The distribution from its bytes."""
        return cls.from_json(orjson.loads(data))

    def to_json(self) -> dict[str, Any]:
        """The distribution as JSON values for ``from_json``."""
        return orjson.loads(self.pack())

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """The distribution from its JSON values."""
        read: dict[str, Any] = {name: np.array(values[name], np.int64) for name in ("tuples", "counts", "keys")}
        read["hottest"] = [HotKey(**hot) for hot in values["hottest"]]
        return cls(**(values | read))


def merge_distributions(tasks: Iterable[Iterable[Distribution]]) -> Iterator[Distribution]:
    """Add up the tasks' shares of windows. Tasks give windows oldest first, and so does the result."""
    for start, group in groupby(merge(*tasks, key=_START), key=_START):
        parts = list(group)
        yield Distribution(
            start,
            parts[0].end_ms,
            measures.sum_loads(part.tuples for part in parts),
            measures.sum_loads(part.counts for part in parts),
            measures.sum_loads(part.keys for part in parts),
            sum(part.distinct_keys for part in parts),
            take_hottest([hot for part in parts for hot in part.hottest]),
        )


def take_hottest(keys: Iterable[HotKey]) -> list[HotKey]:
    """The ``HOTTEST`` keys with the most tuples, hottest first."""
    return sorted(keys, key=lambda hot: (-hot.tuples, hot.key))[:HOTTEST]


def select_hottest(rows: pa.Table) -> list[HotKey]:
    """The hottest of a window's keys, whose rows have key, tuples, count, workers."""
    order = pc.SelectKOptions(HOTTEST, [("tuples", "descending"), ("key", "ascending")])
    best = rows.take(pc.call_function("select_k_unstable", [rows], order))
    return [HotKey(**row) for row in best.select(["key", "tuples", "count", "workers"]).to_pylist()]


class Observer:
    """Observes a task's rows in order of windows. Only unfinished windows are in memory."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._loads: dict[tuple[int, int], NDArray[np.int64]] = {}  # window → [3, W]
        self._distinct: dict[int, int] = {}
        self._hottest: dict[int, list[HotKey]] = {}

    def rows(self, rows: pa.RecordBatch) -> None:
        """Observe rows of start, end (ms), worker, tuples, count: one per key and worker with its tuples."""
        columns = (rows.column(name).to_numpy() for name in ("start", "end", "worker", "tuples", "count"))
        start, end, worker, tuples, count = columns
        for first, stop in find_runs(start):
            span, part = (int(start[first]), int(end[first])), worker[first:stop]
            loads = self._of(span, int(part.max()) + 1)
            loads[0] += sum_by_key(part, tuples[first:stop], loads.shape[1])
            loads[1] += sum_by_key(part, count[first:stop], loads.shape[1])
            loads[2] += np.bincount(part, minlength=loads.shape[1])

    def _of(self, span: tuple[int, int], least: int) -> NDArray[np.int64]:
        """A window's loads, int64[3, W], with W at least ``least``."""
        known = self._loads.get(span, np.zeros((3, self._workers), np.int64))
        self._loads[span] = np.pad(known, ((0, 0), (0, max(0, least - known.shape[1]))))
        return self._loads[span]

    def keys(self, merged: pa.Table) -> None:
        """Observe rows of ``aggregator.MERGED``, one per key."""
        for first, stop in find_runs(merged["start"].to_numpy()):
            part = merged.slice(first, stop - first)
            start = part["start"][0].as_py()
            self._distinct[start] = self._distinct.get(start, 0) + part.num_rows
            self._hottest[start] = take_hottest([*self._hottest.get(start, []), *select_hottest(part)])

    def finish(self, before: int | None = None) -> Iterator[Distribution]:
        """Yield and forget the windows that start before this time (ms), by default all."""
        for span in [span for span in self._loads if before is None or span[0] < before]:
            start, (tuples, counts, keys) = span[0], self._loads.pop(span)
            yield Distribution(*span, tuples, counts, keys, self._distinct.pop(start), self._hottest.pop(start))


def find_runs(values: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """(first, stop) of each stretch of equal values."""
    if len(values):
        bounds = np.flatnonzero(np.diff(values)) + 1
        yield from zip([0, *bounds.tolist()], [*bounds.tolist(), len(values)], strict=True)


def make_messages(
    distribution: Distribution, totals: Totals, tags: dict[str, str], occupants: list[dict[str, Any]]
) -> list[ResultMessage]:
    """The distribution topic's records of a window: EVENT_INFO, then those of workers, hot keys and occupants.

    ``occupants`` are the keys in each source's old space, if the scheme has one: the key, the source, and the scheme's
    fields.
    """
    window = format_window(distribution.start_ms)
    tags = tags | {"window": window}

    def record(kind: str, name: str, fields: dict[str, Any], more: dict[str, Any]) -> ResultMessage:
        key = f"{window}/{kind}/{name}" if name else f"{window}/{kind}"
        return make_message(key, kind, distribution.end_ms, tags | more, fields)

    share = measures.load_shares(distribution.tuples)
    messages = [record("EVENT_INFO", "", distribution.fields(totals), {})]
    for w in range(len(share)):
        load = {
            "tuples": int(distribution.tuples[w]),
            "count": int(distribution.counts[w]),
            "distinctKeys": int(distribution.keys[w]),
            "share": float(share[w]),
        }
        messages.append(record("WORKER", str(w), load, {"worker": str(w)}))
    for rank, hot in enumerate(distribution.hottest):
        fields = {"rank": rank + 1, "tuples": hot.tuples, "count": hot.count, "workers": hot.workers}
        messages.append(record("HOT_KEY", hot.key, fields, {"key": hot.key}))
    for occupant in occupants:
        own = {"key": occupant["key"], "source": str(occupant["source"])}
        fields = {name: value for name, value in occupant.items() if name not in own}
        messages.append(record("OLD_SPACE", f"{own['source']}/{own['key']}", fields, own))
    return messages
