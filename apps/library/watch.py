"""Balance metrics for user-defined queries: loads, imbalance and replication of the last batches.

>>> placed = observed(balance(events, "user_id", 32, checkpoint=path), "user_id", 32)  # doctest: +SKIP
>>> query = placed.writeStream.option("checkpointLocation", path).start("placed")  # doctest: +SKIP
>>> rich.print(watch(query))  # doctest: +SKIP

The functions with an argument ``observe`` don't need ``observed``. The metrics are collected with
``DataFrame.observe``, and kept in the query's progress, also through Spark Connect.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from unskew.apps.metrics import balance_observation
from unskew.apps.metrics.balance_observation import BatchBalance
from unskew.apps.metrics.write_reports import BatchWrite, read_writes
from unskew.apps.router.row_keys import Key, make_key_column
from unskew.errors import UsageError
from unskew.grouping.measures import load_shares, straggler_ratio
from unskew.spark.compat import explain_missing_column, require_frame

if TYPE_CHECKING:  # of unskew[watch]
    from matplotlib.figure import Figure
    from rich.table import Table

    from unskew.apps.metrics.query_page import MetricsPage
    from unskew.kafka.connection import Connection

_LACKS = "{} needs a package of unskew[watch]: there is no {}"


def observed(
    df: DataFrame, key: Key, workers: int, *, worker_column: str = "worker", name: str = "unskew"
) -> DataFrame:
    """Let Spark measure the loads and the replication of what ``balance`` has placed, for ``watch``.

    The rows and their partitions stay as they are. The figures are for monitoring rather than accounting: some versions
    of Spark count rows twice if a stage runs again because its output was lost.

    Parameters
    ----------
    df : DataFrame
        The result of ``balance``.
    key : str, Column, or a list of these
        The key that ``balance`` was given.
    workers : int
        The W ≥ 1 that ``balance`` was given.
    worker_column : str
        The column with the row's worker.
    name : str
        The observation's name, which must be unique in the query.

    Returns
    -------
    DataFrame
        The same rows and columns.

    Raises
    ------
    UsageError
        There is no such column or key, or ``workers`` is below 1.

    Examples
    --------
    >>> from unskew import balance
    >>> events = spark.readStream.format("rate").load().selectExpr("concat('user ', value % 50) AS user")
    >>> placed = observed(balance(events, "user", 4), "user", 4)
    >>> placed.columns
    ['user', 'worker']

    """
    require_frame(df)
    if workers < 1:
        raise UsageError(f"workers is {workers}; valid: 1 or more")
    if worker_column not in df.columns:
        raise explain_missing_column(df, worker_column)
    return balance_observation.observe_rows(df, make_key_column(df, key), F.col(worker_column), workers, name)


@dataclass(frozen=True)
class Watch:
    """The last batches of a query: ``rows()``, ``table()`` or ``rich.print(watch(query))``, ``plot()`` and ``serve()``.

    Each call asks the query again. Spark keeps the last 100 batches (``spark.sql.streaming.numRecentProgressUpdates``)
    until the query's process ends. ``rich`` and ``matplotlib`` come with ``unskew[watch]``.

    Attributes
    ----------
    query : StreamingQuery
        A query that runs, or has ended; classic or of Spark Connect.
    name : str
        The name of the observation.
    connection : Connection, optional
        The Kafka cluster that the query reads, if it was given.

    """

    query: Any
    name: str
    connection: "Connection | None" = field(default=None, repr=False)

    def rows(self) -> list[BatchBalance]:
        """The last batches that had rows, oldest first.

        Raises
        ------
        UsageError
            The query had tuples, and no observation of this name.

        """
        return balance_observation.read_batches(self.query.recentProgress, self.name)

    def writes(self) -> list[BatchWrite]:
        """The last batches that ``balanced_write`` has written in the query's ``foreachBatch``, oldest first.

        They are kept by the process that has written them. So through Spark Connect there are none.
        """
        return read_writes(str(self.query.id))

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
        rows = self.rows()
        columns: dict[str, Callable[[BatchBalance], str]] = {
            "batch": lambda row: str(row.batch),
            "time": lambda row: row.time.isoformat(timespec="seconds"),
            "tuples": lambda row: f"{row.tuples:,}",
            "least load": lambda row: f"{min(row.loads):,}",
            "highest load": lambda row: f"{max(row.loads):,}",
            "imbalance": lambda row: f"{row.imbalance:,.1f}",
            "replication": lambda row: f"{row.replication:.2f}",
        }
        if any(row.busy for row in rows):
            columns["slowest / mean"] = lambda row: f"{straggler_ratio(row.busy):.2f}"
        if any(row.states for row in rows):
            columns |= {"states": lambda row: f"{sum(row.states):,}", "moved": lambda row: f"{row.moved:,}"}
        table = Table(title=f"{self.name}: the last batches")
        for column in columns:
            table.add_column(column, justify="left" if column == "time" else "right")
        for row in rows:
            table.add_row(*(text(row) for text in columns.values()))
        return table

    def __rich__(self) -> "Table":
        return self.table()

    def __repr__(self) -> str:
        """The query's name, or its id."""
        return f"Watch(query={self.query.name or str(self.query.id)!r}, name={self.name!r})"

    def _repr_html_(self) -> str | None:
        """The table, as a notebook shows it. None, and so the text, where there is no ``rich``."""
        try:
            from rich.console import Console
        except ModuleNotFoundError:
            return None
        console = Console(record=True, file=StringIO(), width=160)
        console.print(self.table())
        return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")

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
        for worker, of in enumerate(zip(*(load_shares(row.loads) for row in rows), strict=True)):
            above.plot(batches, of, marker=".", linewidth=1, label=f"worker {worker}")
        below.plot(batches, [row.replication for row in rows], marker=".", color="#555555")
        above.set_title("share of the tuples, each worker (%)", fontsize=10)
        below.set_title("replication (workers a key)", fontsize=10)
        above.set_ylim(bottom=0)
        below.set_ylim(bottom=0)
        below.set_xlabel("batch")
        below.xaxis.set_major_locator(MaxNLocator(integer=True))
        return figure

    def serve(
        self, port: int = 0, host: str = "127.0.0.1", *, run: str | None = None, grouping: str = ""
    ) -> "MetricsPage":
        """Serve the batches for Prometheus, by the names of the topology's metrics.

        The page asks the query whenever Prometheus asks the page. A batch counts as a window, so its replication is
        ``unskew_window_dist_cost``. The alerts' rules and the dashboards of Prometheus (``balance``, ``pipeline``) work
        for the query, too; the other dashboards ask InfluxDB, to which only a topology writes. Hot keys and plans
        aren't measured; late rows only by ``keyed_map`` and joins of streams, rejected ones only by ``keyed_map``. What
        ``balanced_write`` does in ``foreachBatch`` is ``unskew_write_…``, also if the query has no observation.

        A running ``unskew stack`` scrapes the page by itself. If the page is asked less often than every 100 batches,
        its counters lack the tuples of those that Spark has forgotten.

        Parameters
        ----------
        port : int
            The port; 0: any free one, which ``.port`` and ``.url`` say.
        host : str
            The address to listen at. By default only this machine can read the page. With ``0.0.0.0`` all machines can.
        run : str
            The label ``run``, which tells queries apart. Default: the query's name, or its id.
        grouping : str
            The label ``grouping`` of what ``balance`` has placed. ``balanced_map`` and ``keyed_map`` name theirs.

        Returns
        -------
        MetricsPage
            It lasts until its ``close()``, and is a context manager.

        Raises
        ------
        UsageError
            The port is taken or invalid, or the address isn't this machine's.
        ImportError
            There are no packages of ``unskew[watch]``.

        """
        try:
            from unskew.apps.metrics.query_page import MetricsPage
        except ModuleNotFoundError as error:
            raise ImportError(_LACKS.format("serve()", error.name)) from error
        return MetricsPage(self.query, self.name, port, host, self.connection, run, grouping)


def watch(
    query: Any,
    *,
    name: str = "unskew",
    group: str | None = None,
    bootstrap_servers: str | None = None,
    kafka_config: Path | str | None = None,
) -> Watch:
    """Watch how evenly the workers of a query are loaded, in its last batches.

    The query must be over what ``observed`` returned, or have a call with ``observe=``. ``watch(query).rows()`` returns
    the figures, ``rich.print(watch(query))`` prints them, and ``watch(query).serve()`` is a page for Prometheus.

    Parameters
    ----------
    query : StreamingQuery
        The query, classic or of Spark Connect.
    name : str
        The name that ``observed`` or ``observe=`` was given.
    group : str, optional
        A consumer group, used by nobody else, to which the offsets that the query has read are committed every five
        seconds, for Kafka's lag tools. Spark still resumes from its checkpoint.
    bootstrap_servers, kafka_config : optional
        The Kafka cluster that the query reads, as for ``kafka_sink``. With one of them ``serve`` also shows how many
        messages an open transaction holds back.

    Returns
    -------
    Watch
        Each of its methods asks the query anew.

    Raises
    ------
    UsageError
        The brokers' addresses or the file are invalid, or there is a group and it isn't known where Kafka is.
    ImportError
        A package of ``unskew[kafka]`` is missing, and ``group`` or a Kafka cluster is given.

    Examples
    --------
    A stream has a batch of 1,000 rows. Every other row has the same key, which PARTIAL_KEY places on two workers:

    >>> from tempfile import mkdtemp
    >>> from unskew import balance
    >>> thousands = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1000).option("numPartitions", 1)
    >>> events = thousands.load().selectExpr("if(value % 2 = 0, 'hot', concat('user ', value % 50)) AS user")
    >>> checkpoint = mkdtemp()
    >>> placed = observed(balance(events, "user", 4, "PARTIAL_KEY", checkpoint), "user", 4)
    >>> writer = placed.writeStream.format("noop").option("checkpointLocation", checkpoint)
    >>> query = writer.trigger(availableNow=True).start()
    >>> query.awaitTermination()
    >>> for batch in watch(query).rows():
    ...     print(batch.tuples, batch.loads, batch.imbalance)
    1000 (230, 271, 270, 229) 21.0

    """
    if group is None and bootstrap_servers is None and kafka_config is None:
        return Watch(query, name)
    if group is not None and not group:
        raise UsageError("group is ''; valid: a consumer group's name")
    try:
        from unskew.apps.metrics.query_offsets import commit_progress
        from unskew.kafka.connection import Connection
    except ModuleNotFoundError as error:
        raise ImportError(f"watch(…, group=…) needs a package of unskew[kafka]: there is no {error.name}") from error
    connection = Connection.of(bootstrap_servers, None if kafka_config is None else Path(kafka_config))
    if group is not None:
        commit_progress(query, connection, group)
    return Watch(query, name, connection)
