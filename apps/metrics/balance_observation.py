"""Balance metrics for user-defined queries: what tasks report in rows, and how progress shows it.

Spark aggregates the reports (``DataFrame.observe``), and keeps them in the query's progress. That works through Spark
Connect, too, where there are no accumulators. What ``balance`` places has its worker as a column, which Spark counts
itself. Inside ``balanced_map`` and ``keyed_map`` the tuples travel in packets. There each worker adds a row with a
report as JSON to its results. The row is left out after Spark has seen it.

A report is taken by its maximum. So it counts once, even if a version of Spark observes rows twice.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from unskew.errors import UsageError
from unskew.grouping.measures import load_imbalance

#: The relative standard deviation of an estimated number of keys or replicas: 4,096 registers for each.
_RSD = 0.02
_KEYS, _REPLICAS, _REJECTED, _GROUPING, _WORKER = "keys", "replicas", "rejected", "grouping", "worker_"


@dataclass(frozen=True)
class BatchBalance:
    """How the tuples of a batch were balanced.

    Attributes
    ----------
    batch : int
        Its number.
    time : datetime
        When it began (UTC).
    tuples : int
        The tuples that were placed. Late ones count.
    loads : tuple of int, [W]
        The tuples of each worker.
    imbalance : float
        The highest load minus the mean load (tuples).
    replication : float
        The replicas of all keys ÷ keys, at least 1. The number of keys is HyperLogLog's estimate, with a relative
        standard deviation of 2 %. So is the number of replicas of what ``balance`` has placed; workers count theirs.
        If a grouping splits no keys, the replication is 1.
    busy : tuple of float, [W]
        Each worker's time at work (s). Empty for ``balance``, whose workers are Spark's own operators.
    states, size : tuple of int, [W]
        Each worker's states after the batch, and their bytes. Empty unless the workers are those of ``keyed_map``.
        Mergers' states don't count.
    moved : int
        The states that left their worker in the batch because a plan gave their keys to another one.
    grouping : str
        The grouping's name. Empty: unknown.
    pairs : tuple of int, [W]
        The pairs that each worker has found. Empty unless the workers are those of a join of streams.
    rejected : int
        The rows that ``keyed_map`` has left out by event time, because they have no time or one that is too far ahead.
    late : tuple of int
        The rows that came too late, which are in no result: of ``keyed_map`` by event time one number; of a join of
        streams two, of the left and the right rows. Empty: none.

    """

    batch: int
    time: datetime
    tuples: int
    loads: tuple[int, ...]
    imbalance: float
    replication: float
    busy: tuple[float, ...] = ()
    states: tuple[int, ...] = ()
    size: tuple[int, ...] = ()
    moved: int = 0
    grouping: str = ""
    rejected: int = 0
    pairs: tuple[int, ...] = ()
    late: tuple[int, ...] = ()

    def __repr__(self) -> str:
        """What was measured: without the fields that are empty or 0."""
        found = (f"{field.name}={value!r}" for field in fields(self) if (value := getattr(self, field.name)))
        return f"BatchBalance({', '.join(found)})"


@dataclass(frozen=True)
class WorkerLoad:
    """What a worker reports of a batch."""

    tuples: int = 0  #: The tuples that came to it, and their distinct keys.
    keys: int = 0
    busy: float = 0.0  #: Its time at work (s).
    states: int | None = None  #: Its states after the batch, and their bytes. None: it has no states.
    size: int | None = None
    moved: int = 0  #: The states that it released to other workers.
    pairs: int | None = None  #: The pairs that it has found. None: it isn't a join's.
    late: Sequence[int] = ()  #: The rows that came too late, of each input. Empty: none can be late.

    def text(self) -> str:
        """The report as a row has it.

        >>> WorkerLoad(5, 2, 0.25).text()
        '{"tuples": 5, "keys": 2, "busy": 0.25, "states": null, "size": null, "moved": 0, "pairs": null, "late": []}'
        """
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Observation:
    """An observation of workers."""

    name: str  #: Its name. A query has each once.
    grouping: str  #: The name of the workers' grouping.


def observe_rows(df: DataFrame, key: Column, worker: Column, workers: int, name: str) -> DataFrame:
    """Let Spark measure rows that have their worker."""
    loads = [F.count(F.when(worker == w, F.lit(1))).alias(f"{_WORKER}{w}") for w in range(workers)]
    # The hash, because a null has one: it is a key, too.
    replicas = F.approx_count_distinct(F.xxhash64(key, worker), _RSD).alias(_REPLICAS)
    return df.observe(name, *loads, _count_distinct(key), replicas)


def observe_keys(df: DataFrame, key: Column, name: str) -> DataFrame:
    """Let Spark count the keys of rows that are still to be routed. The observation's name is derived from ``name``."""
    return df.observe(_name_beside(name, _KEYS), _count_distinct(key))


def observe_rejected(df: DataFrame, taken: Column, name: str, number: int = 0) -> DataFrame:
    """Let Spark count the rows that aren't taken, of a query's stream of this number.

    The observation's name is derived from ``name``.
    """
    own = _name_beside(name, f"{_REJECTED} {number}" if number else _REJECTED)
    return df.observe(own, F.count(F.when(~taken, F.lit(1))).alias(_REJECTED))


def observe_workers(df: DataFrame, worker: Column, report: Column, workers: int, observation: Observation) -> DataFrame:
    """Let Spark gather the workers' reports: a row for each worker that had tuples, and others.

    The columns are the row's worker, which is null in other rows, and its ``WorkerLoad.text``.
    """
    loads = [F.max(F.when(worker == w, report)).alias(f"{_WORKER}{w}") for w in range(workers)]
    return df.observe(observation.name, *loads, F.lit(observation.grouping).alias(_GROUPING))


def _count_distinct(key: Column) -> Column:
    return F.approx_count_distinct(F.xxhash64(key), _RSD).alias(_KEYS)


def _name_beside(name: str, what: str) -> str:
    return f"{name} {what}"


def _is_rejected(observed: str, name: str) -> bool:
    """Whether an observation is that of the rows that one of a query's streams has left out."""
    beside = _name_beside(name, _REJECTED)
    return observed == beside or observed.startswith(f"{beside} ")


def read_batches(progresses: list[Any], name: str) -> list[BatchBalance]:
    """The batches of a query that had rows, oldest first, by its ``StreamingQueryProgress``es.

    Raises ``UsageError`` if the query had tuples, and no observation of this name.
    """
    found, taken, names = [], 0, set()
    for progress in progresses:
        observed = progress.observedMetrics
        names |= observed.keys()
        taken += progress.numInputRows
        if name in observed:
            rejected = sum(
                _read_values(observed[each]).get(_REJECTED, 0) for each in observed if _is_rejected(each, name)
            )
            keys = _read_values(observed.get(_name_beside(name, _KEYS)))
            measured = {**keys, _REJECTED: rejected, **_read_values(observed[name])}
            found.append(_read_batch(progress.batchId, progress.timestamp, measured))
    if taken and name not in names:
        # What is derived from a name is no name to ask for.
        derived = {each for each in names for of in names if each == _name_beside(of, _KEYS) or _is_rejected(each, of)}
        own = sorted(names - derived)
        there = f"valid: {', '.join(own)}" if own else "valid: a query of unskew.observed(…), or with observe="
        raise UsageError(f"the query has no observation {name!r}; {there}")
    return [each for each in found if each.tuples or each.rejected]


def _read_values(measured: Any) -> dict[str, Any]:
    """An observation by its names. Spark Connect (4.2) has a row's values and its schema where the row should be."""
    values: dict[str, Any] = measured.asDict() if measured is not None else {}
    if values.keys() != {"values", "schema"}:
        return values
    names = [each["name"] for each in values["schema"]["fields"]]
    return dict(zip(names, values["values"], strict=True))


def _read_batch(batch: int, time: str, measured: Mapping[str, Any]) -> BatchBalance:
    """A batch's figures, from those that Spark has of it."""
    workers = sum(name.startswith(_WORKER) for name in measured)
    by_worker = [measured[f"{_WORKER}{w}"] for w in range(workers)]
    begun, keys = datetime.fromisoformat(time), measured.get(_KEYS)
    if _GROUPING not in measured:
        return _make_balance(batch, begun, tuple(by_worker), measured[_REPLICAS], keys)
    reports = [WorkerLoad(**json.loads(text)) if text else WorkerLoad() for text in by_worker]
    keeping = any(each.states is not None for each in reports)
    late = [each.late for each in reports if each.late]
    return _make_balance(
        batch,
        begun,
        tuple(each.tuples for each in reports),
        sum(each.keys for each in reports),
        keys,
        busy=tuple(each.busy for each in reports),
        states=tuple(each.states or 0 for each in reports) if keeping else (),
        size=tuple(each.size or 0 for each in reports) if keeping else (),
        moved=sum(each.moved for each in reports),
        grouping=measured[_GROUPING],
        rejected=measured[_REJECTED],
        pairs=tuple(each.pairs or 0 for each in reports) if any(each.pairs is not None for each in reports) else (),
        late=tuple(map(sum, zip(*late, strict=True))) if any(map(any, late)) else (),
    )


def _make_balance(
    batch: int, time: datetime, loads: tuple[int, ...], replicas: int, keys: int | None, **others: Any
) -> BatchBalance:
    # Of two estimates, the number of replicas may be the smaller one. Without a number of keys, none is split.
    replication = max(1.0, replicas / max(1, keys)) if keys is not None else 1.0
    return BatchBalance(batch, time, sum(loads), loads, load_imbalance(loads), replication, **others)
