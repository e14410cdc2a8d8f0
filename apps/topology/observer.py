"""The distribution observer: how the tuples of a closed window lay on the workers, and what that cost."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

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
    """One closed window.

    Attributes
    ----------
    start_ms, end_ms : int
        The window.
    tuples, counts, keys : int64[W]
        Each worker's tuples, sum of counts, distinct keys.
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


def observe(rows: DataFrame, aggregated: DataFrame, workers: int) -> list[Distribution]:
    """The distribution of each window in ``rows`` (window, key, worker, tuples, count), oldest first.

    ``aggregated`` is the same merged by key (``aggregator.aggregate``). Only W numbers a window and the hottest
    keys come to the driver.
    """
    by_worker = rows.groupBy("window", "worker").agg(
        F.sum("tuples").alias("tuples"), F.sum("count").alias("count"), F.count("key").alias("keys")
    )
    rank = F.row_number().over(Window.partitionBy("window").orderBy(F.desc("tuples"), "key"))
    hottest = aggregated.withColumn("rank", rank).where(F.col("rank") <= HOTTEST)
    distinct = {_span(r): r["keys"] for r in aggregated.groupBy("window").agg(F.count("*").alias("keys")).collect()}
    loads = {span: np.zeros((3, workers), np.int64) for span in distinct}
    for r in by_worker.collect():
        loads[_span(r)][:, r["worker"]] = r["tuples"], r["count"], r["keys"]
    hot: dict[tuple[int, int], list[HotKey]] = {span: [] for span in distinct}
    for r in sorted(hottest.collect(), key=lambda r: r["rank"]):
        hot[_span(r)].append(HotKey(r["key"], r["tuples"], r["count"], r["workers"]))
    return [
        Distribution(*span, loads[span][0], loads[span][1], loads[span][2], distinct[span], hot[span])
        for span in sorted(distinct)
    ]


def _span(row: Any) -> tuple[int, int]:
    start, end = row["window"]
    return round(start.timestamp() * 1000), round(end.timestamp() * 1000)


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
