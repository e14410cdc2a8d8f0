"""The topology: source → splitter → router → placement → worker → windowed state.

All of it is declared here, in order; ``unskew.apps.run`` runs it, and what happens to the windows that close
(aggregator, observer, rejected) is in ``sink``.
"""

from datetime import datetime

from pyspark.sql import DataFrame, SparkSession

from unskew.apps.feedback.monitors import Monitors
from unskew.apps.topology.placement import place
from unskew.apps.topology.reports import Reports
from unskew.apps.topology.router import Routing
from unskew.apps.topology.settings import Settings
from unskew.apps.topology.source import messages, reading
from unskew.apps.topology.windows import batch_time, windowed
from unskew.apps.topology.work import PLACE
from unskew.apps.topology.worker import Worker
from unskew.works.interface import KeyedWork


def dataflow(
    spark: SparkSession,
    settings: Settings,
    reports: Reports | None = None,
    flush_at: datetime | None = None,
    ahead_ms: int = 0,
) -> DataFrame:
    """The whole topology as a streaming DataFrame, up to the rows of closed windows (``windows.windowed``).

    Workers that remember are in ``unskew.apps.keyed.dataflow``.

    Parameters
    ----------
    spark : SparkSession
        Where it will run.
    settings : Settings
        What it does.
    reports : Reports, optional
        Where tasks tell what they did; None: nowhere.
    flush_at : datetime, optional
        Event time only: let time pass to this moment, so that windows before it close though no tuple says so.
    ahead_ms : int
        How much batch time is ahead of Spark's (``unskew.apps.checkpoint.clock``).

    """
    states = settings.states
    if states is not None:
        from unskew.apps.keyed.dataflow import remembering

        return remembering(spark, settings, states, reports, flush_at, ahead_ms)
    assert not isinstance(settings.work, KeyedWork)
    by_event = settings.time == "event"
    routing = Routing.of(settings, reports)
    splitter = reading(spark, settings)
    carry = [
        *settings.carried,
        *(["time"] if by_event else []),
        *(PLACE if settings.rejecting else []),
        *(["count"] if splitter.counted else []),
        "key",
    ]
    packets = place(
        messages(spark, settings, splitter),
        routing,
        "key",
        carry,
        source="source",
        time="time" if by_event else batch_time(ahead_ms),
        tasks=_tasks(spark, settings),
        fields=splitter.fields,
    )
    worker = Worker(
        settings.work,
        settings.cost,
        settings.window_ms if by_event else None,
        reports,
        settings.work_errors,
        Monitors(routing),
    )
    partials = packets.mapInArrow(worker.__call__, worker.ddl)
    return windowed(partials, settings.window, settings.lateness if by_event else None, flush_at, ahead_ms)


def _tasks(spark: SparkSession, settings: Settings) -> int:
    """How many tasks the workers' work is: one a worker where they wait side by side, or are on machines we don't know.

    Else no more than can run at once: a task costs some ten milliseconds, however little it does.
    """
    if settings.cost.mean or settings.mode != "LOCAL":
        return settings.workers
    return spark.sparkContext.defaultParallelism
