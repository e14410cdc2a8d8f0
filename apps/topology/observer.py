"""The distribution observer: how the tuples of a closed window lay on the workers, and what that cost."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.apps.checkpoint.totals import Totals
from unskew.apps.topology.messages import Message, message, window_id
from unskew.grouping import measures

HOTTEST = 10


@dataclass(frozen=True)
class HotKey:
    """One of a window's keys with the most tuples."""

    key: str
    tuples: int
    count: int
    workers: int


@dataclass(frozen=True)
class Distribution:
    """One closed window, or what one task knows of it: no key is known to two.

    Attributes
    ----------
    start_ms, end_ms : int
        The window.
    tuples, counts, keys : int64[W]
        Each worker's tuples, sum of counts, distinct keys. (A window in which there came to be fewer workers has as
        many as it had before.)
    distinct_keys : int
        Of all workers together.
    hottest : list of HotKey
        At most ``HOTTEST``, the one with the most tuples first.

    """

    start_ms: int
    end_ms: int
    tuples: NDArray[np.int64]
    counts: NDArray[np.int64]
    keys: NDArray[np.int64]
    distinct_keys: int
    hottest: list[HotKey]

    def fields(self, totals: Totals) -> dict[str, Any]:
        """The window's metrics, ``totals`` including this window."""
        duration = self.end_ms - totals.started_ms
        return {
            "STD_DEV": measures.std_dev(self.tuples),
            "DIST_COST": measures.dist_cost(int(self.keys.sum()), self.distinct_keys),
            "THROUGHPUT_RATIO": 1000 * totals.tuples / duration if duration > 0 else 0.0,
            "TOTAL_COUNT": totals.tuples,
            "DURATION": duration,
            "imbalance": measures.imbalance(self.tuples),
            "imbalanceFraction": measures.imbalance_fraction(self.tuples),
            "tuples": int(self.tuples.sum()),
            "count": int(self.counts.sum()),
            "distinctKeys": self.distinct_keys,
            "rejected": totals.rejected,
            "late": totals.late,
            "skipped": totals.skipped,
        }

    def packed(self) -> bytes:
        """All of it, for ``unpacked``."""
        return orjson.dumps(self, option=orjson.OPT_SERIALIZE_NUMPY)

    @classmethod
    def unpacked(cls, data: bytes) -> Self:
        """What was packed."""
        said = orjson.loads(data)
        loads = {name: np.array(said[name], np.int64) for name in ("tuples", "counts", "keys")}
        return cls(**(said | loads | {"hottest": [HotKey(**hot) for hot in said["hottest"]]}))


def together(parts: Iterable[Distribution]) -> list[Distribution]:
    """The windows, oldest first, of which these are parts."""
    windows: dict[int, list[Distribution]] = {}
    for part in parts:
        windows.setdefault(part.start_ms, []).append(part)
    return [
        Distribution(
            start,
            windows[start][0].end_ms,
            measures.summed(part.tuples for part in windows[start]),
            measures.summed(part.counts for part in windows[start]),
            measures.summed(part.keys for part in windows[start]),
            sum(part.distinct_keys for part in windows[start]),
            _hottest([hot for part in windows[start] for hot in part.hottest]),
        )
        for start in sorted(windows)
    ]


def _hottest(keys: Iterable[HotKey]) -> list[HotKey]:
    return sorted(keys, key=lambda hot: (-hot.tuples, hot.key))[:HOTTEST]


class Observer:
    """A task's view of the windows whose rows pass by, in the windows' order; only the last one is kept.

    Parameters
    ----------
    workers : int
        W.

    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._loads: dict[tuple[int, int], NDArray[np.int64]] = {}  # window → [3, W]
        self._distinct: dict[int, int] = {}
        self._hottest: dict[int, list[HotKey]] = {}

    def rows(self, rows: pa.RecordBatch) -> None:
        """Take rows of start, end (ms), worker, tuples, count: one a worker that held a key."""
        columns = (rows.column(name).to_numpy() for name in ("start", "end", "worker", "tuples", "count"))
        start, end, worker, tuples, count = columns
        for first, stop in _runs(start):
            span, part = (int(start[first]), int(end[first])), worker[first:stop]
            loads = self._of(span, int(part.max()) + 1)
            np.add.at(loads[0], part, tuples[first:stop])
            np.add.at(loads[1], part, count[first:stop])
            loads[2] += np.bincount(part, minlength=loads.shape[1])

    def _of(self, span: tuple[int, int], least: int) -> NDArray[np.int64]:
        """A window's loads, [3, W], W at least so many: int64."""
        known = self._loads.get(span, np.zeros((3, self._workers), np.int64))
        self._loads[span] = np.pad(known, ((0, 0), (0, max(0, least - known.shape[1]))))
        return self._loads[span]

    def keys(self, merged: pa.Table) -> None:
        """Take rows of ``aggregator.MERGED``: one a key."""
        for first, stop in _runs(merged["start"].to_numpy()):
            part = merged.slice(first, stop - first)
            start = part["start"][0].as_py()
            self._distinct[start] = self._distinct.get(start, 0) + part.num_rows
            order = pc.SelectKOptions(HOTTEST, [("tuples", "descending"), ("key", "ascending")])
            best = part.take(pc.call_function("select_k_unstable", [part], order))
            hot = [HotKey(**row) for row in best.select(["key", "tuples", "count", "workers"]).to_pylist()]
            self._hottest[start] = _hottest([*self._hottest.get(start, []), *hot])

    def finished(self, before: int | None = None) -> Iterator[Distribution]:
        """The windows that start before this moment (ms; None: all); they are forgotten."""
        for span in [span for span in self._loads if before is None or span[0] < before]:
            start, (tuples, counts, keys) = span[0], self._loads.pop(span)
            yield Distribution(*span, tuples, counts, keys, self._distinct.pop(start), self._hottest.pop(start))


def _runs(values: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """(first, stop) of each stretch of equal values."""
    if len(values):
        bounds = np.flatnonzero(np.diff(values)) + 1
        yield from zip([0, *bounds.tolist()], [*bounds.tolist(), len(values)], strict=True)


def to_messages(
    distribution: Distribution, totals: Totals, tags: dict[str, str], occupants: list[dict[str, Any]]
) -> list[Message]:
    """The records of the distribution topic for one window: EVENT_INFO, then one a worker, hot key and occupant.

    ``occupants`` are the keys in each source's old space, for the schemes that have one: key, source, and what the
    scheme tells of them.
    """
    window = window_id(distribution.start_ms)
    tags = tags | {"window": window}

    def record(kind: str, name: str, fields: dict[str, Any], more: dict[str, Any]) -> Message:
        key = f"{window}/{kind}/{name}" if name else f"{window}/{kind}"
        return message(key, kind, distribution.end_ms, tags | more, fields)

    share = measures.shares(distribution.tuples)
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
        place = {"key": occupant["key"], "source": str(occupant["source"])}
        fields = {name: value for name, value in occupant.items() if name not in place}
        messages.append(record("OLD_SPACE", f"{place['source']}/{place['key']}", fields, place))
    return messages
