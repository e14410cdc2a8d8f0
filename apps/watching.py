"""Watch how a query of one's own balances: loads, imbalance and replication of its last batches.

>>> placed = observed(balance(events, "user_id", 32, checkpoint=path), "user_id", 32)  # doctest: +SKIP
>>> query = placed.writeStream.option("checkpointLocation", path).start("placed")  # doctest: +SKIP
>>> rich.print(watch(query))  # doctest: +SKIP

Spark measures (``DataFrame.observe``), and keeps the figures in the query's progress, also through Spark Connect. Where
``observed`` isn't called nothing is measured.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from unskew.apps.spark import no_column
from unskew.errors import UsageError
from unskew.grouping.measures import imbalance, shares

if TYPE_CHECKING:  # of unskew[app]
    from matplotlib.figure import Figure
    from rich.table import Table

#: The relative standard deviation of the estimated numbers of keys and replicas: 4,096 registers for each of the two.
_RSD = 0.02
_LOAD = re.compile(r"worker_(\d+)")
_LACKS = "{} needs a package of unskew[app]: there is no {}"


def observed(
    df: DataFrame, key: str | Column, workers: int, *, worker_column: str = "worker", name: str = "unskew"
) -> DataFrame:
    """Let Spark measure the loads and the replication of what ``balance`` has placed, for ``watch``.

    The rows stay as they are, and where they are. Each row is compared with the W workers, and hashed twice.

    Parameters
    ----------
    df : DataFrame
        What ``balance`` returned.
    key : str or Column
        The key that it was given.
    workers : int
        Its W ≥ 1.
    worker_column : str
        Its column of the row's worker.
    name : str
        The observation's name, of which a query has each once.

    Raises
    ------
    UsageError
        There is no such column, or ``workers`` is below 1.

    Notes
    -----
    These are figures to look at, not to account with. Some versions of Spark count rows twice if a stage runs again
    because its output was lost. The rows themselves are not doubled.

    """
    if workers < 1:
        raise UsageError(f"workers is {workers}; valid: 1 or more")
    for column in (worker_column, *([key] if isinstance(key, str) else [])):
        if column not in df.columns:
            raise no_column(df, column)
    worker = F.col(worker_column)
    of = F.col(key) if isinstance(key, str) else key
    loads = [F.count(F.when(worker == w, F.lit(1))).alias(f"worker_{w}") for w in range(workers)]
    # The hash, because a null has one: it is a key, too.
    keys = F.approx_count_distinct(F.xxhash64(of), _RSD).alias("keys")
    replicas = F.approx_count_distinct(F.xxhash64(of, worker), _RSD).alias("replicas")
    return df.observe(name, *loads, keys, replicas)


@dataclass(frozen=True)
class Balanced:
    """How the tuples of a batch were balanced.

    Attributes
    ----------
    batch : int
        Its number.
    time : datetime
        When it began (UTC).
    tuples : int
        The tuples that were placed.
    loads : tuple of int, [W]
        The tuples of each worker.
    imbalance : float
        The highest load minus the mean load (tuples).
    replication : float
        The replicas of all keys ÷ keys, at least 1. Both numbers are HyperLogLog's estimates, each with a relative
        standard deviation of 2 %.

    """

    batch: int
    time: datetime
    tuples: int
    loads: tuple[int, ...]
    imbalance: float
    replication: float


@dataclass(frozen=True)
class Watch:
    """The last batches of a query: ``rows()``, ``table()`` or ``rich.print(watch(query))``, and ``plot()``.

    Each call asks the query anew. Spark keeps its last 100 batches (``spark.sql.streaming.numRecentProgressUpdates``).

    Attributes
    ----------
    query : StreamingQuery
        A query that runs, or has ended; classic or of Spark Connect.
    name : str
        The name of the observation.

    """

    query: Any
    name: str

    def rows(self) -> list[Balanced]:
        """The last batches that had tuples, oldest first.

        Raises
        ------
        UsageError
            The query had tuples, and no observation of this name.

        """
        found, taken, names = [], 0, set()
        for progress in self.query.recentProgress:
            names |= progress.observedMetrics.keys()
            taken += progress.numInputRows
            measured = progress.observedMetrics.get(self.name)
            if measured is not None:
                found.append(_balanced(progress.batchId, progress.timestamp, _named(measured.asDict())))
        if taken and self.name not in names:
            there = f"valid: {', '.join(sorted(names))}" if names else "valid: a query of unskew.observed(…)"
            raise UsageError(f"the query has no observation {self.name!r}; {there}")
        return [each for each in found if each.tuples]

    def table(self) -> "Table":
        """The batches as a table of ``rich``, newest last.

        Raises
        ------
        UsageError
            As ``rows``.
        ImportError
            There is no ``rich``.

        """
        try:
            from rich.table import Table
        except ModuleNotFoundError as error:
            raise ImportError(_LACKS.format("table()", error.name)) from error
        columns = ("batch", "time", "tuples", "least load", "highest load", "imbalance", "replication")
        table = Table(title=f"{self.name}: the last batches")
        for column in columns:
            table.add_column(column, justify="left" if column == "time" else "right")
        for row in self.rows():
            counts = (f"{n:,}" for n in (row.tuples, min(row.loads), max(row.loads)))
            moment = row.time.isoformat(timespec="seconds")
            table.add_row(str(row.batch), moment, *counts, f"{row.imbalance:,.1f}", f"{row.replication:.2f}")
        return table

    def __rich__(self) -> "Table":
        return self.table()

    def plot(self) -> "Figure":
        """The batches as a picture: above the share of each worker, below the replication.

        Returns
        -------
        Figure
            Of matplotlib. A notebook shows it; ``savefig`` writes it to a file.

        Raises
        ------
        UsageError
            As ``rows``.
        ImportError
            There is no ``matplotlib``.

        """
        try:
            from matplotlib.figure import Figure
            from matplotlib.ticker import MaxNLocator
        except ModuleNotFoundError as error:
            raise ImportError(_LACKS.format("plot()", error.name)) from error
        rows = self.rows()
        batches = [row.batch for row in rows]
        figure = Figure(figsize=(9, 6), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True)
        for worker, of in enumerate(zip(*(shares(row.loads) for row in rows), strict=True)):
            above.plot(batches, of, marker=".", linewidth=1, label=f"worker {worker}")
        below.plot(batches, [row.replication for row in rows], marker=".", color="#555555")
        above.set_title("share of the tuples, each worker (%)", fontsize=10)
        below.set_title("replication (workers a key)", fontsize=10)
        above.set_ylim(bottom=0)
        below.set_ylim(bottom=0)
        below.set_xlabel("batch")
        below.xaxis.set_major_locator(MaxNLocator(integer=True))
        return figure


def watch(query: Any, *, name: str = "unskew") -> Watch:
    """Watch a query over a DataFrame that ``observed`` returned.

    Parameters
    ----------
    query : StreamingQuery
        The query, classic or of Spark Connect.
    name : str
        The name that ``observed`` was given.

    """
    return Watch(query, name)


def _named(measured: dict[str, Any]) -> dict[str, int]:
    """The figures by their names. Spark Connect (4.2) has a row's values and its schema where the row should be."""
    if measured.keys() != {"values", "schema"}:
        return measured
    names = [field["name"] for field in measured["schema"]["fields"]]
    return dict(zip(names, measured["values"], strict=True))


def _balanced(batch: int, time: str, measured: dict[str, int]) -> Balanced:
    """A batch's figures, from those that Spark has of it."""
    by_worker = {int(found[1]): n for name, n in measured.items() if (found := _LOAD.fullmatch(name))}
    loads = tuple(by_worker[w] for w in range(len(by_worker)))
    # Of two estimates, the number of replicas may be the smaller one.
    replication = max(1.0, measured["replicas"] / max(1, measured["keys"]))
    return Balanced(batch, datetime.fromisoformat(time), sum(loads), loads, imbalance(loads), replication)
