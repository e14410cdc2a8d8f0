"""Runs of several groupings, one after the other, on one warm Spark session, and the output of their figures."""

import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

from unskew.apps.aggregator.publisher import result_topics
from unskew.apps.checkpoint.location import location_by
from unskew.apps.cli.comparison import tables
from unskew.apps.cli.comparison.run_record import Course, Recorder
from unskew.apps.driver.dataflow import Dataflow
from unskew.apps.driver.preconditions import forget_commits
from unskew.apps.driver.session import session
from unskew.apps.driver.streaming_job import Run
from unskew.apps.driver.termination import Halted, stop_between_batches
from unskew.apps.metrics.colours import colour
from unskew.apps.metrics.display import Display
from unskew.apps.metrics.metrics_reporter import Monitor
from unskew.apps.metrics.outputs import Destinations, Outputs
from unskew.apps.metrics.query_progress import kafka_source
from unskew.apps.settings import Settings
from unskew.directories import data_directory
from unskew.errors import EnvironmentFault, UsageError
from unskew.grouping import named, parameters
from unskew.kafka.topics import end_offsets, ensure_topic, partitions_of
from unskew.shell import ask_to_stop, unskew

_WARM_UP = 15.0  # s after the first batch
_LOOK_EVERY = 0.05  # s
_FREE = "x1000000000"  # nearly; for groupings that must know what keys cost
_NOWHERE = Destinations()


def warm_up(spark: SparkSession, settings: Settings, stopped: Callable[[], bool]) -> None:
    """Send the stream, or the part of it for which there is time, through the topology. Nothing is published.

    Without this, the first run alone would pay for the JVM's compilation. Of two runs with free tuples, the first had
    half the tuples/s of the second, whichever grouping it was. The user's work is left out, because it may have
    effects, and so is simulated cost.
    """
    speed, limit = _FREE if settings.key_costs else "x0", settings.batch_limit
    counting = replace(settings, work=None, work_columns=(), checkpoint=f"{settings.checkpoint}-warm-up")
    free = replace(counting, speed=speed, max_tuples=limit)
    rows = Dataflow.of(free).rows(spark)
    halt = threading.Event()

    def batch(df: DataFrame, _: int) -> None:
        if halt.is_set():
            raise Halted
        df.count()

    query = (
        rows.writeStream.option("checkpointLocation", free.location.address)
        .trigger(processingTime="0 seconds")
        .foreachBatch(batch)
        .start()
    )
    deadline: float | None = None
    while query.isActive and not stopped():
        progress: Any = query.lastProgress
        if progress is not None:
            deadline = deadline or time.monotonic() + _WARM_UP
            if time.monotonic() > deadline or not kafka_source(progress)["numInputRows"]:
                break
        time.sleep(_LOOK_EVERY)
    halt.set()
    # If the query has failed, the first run fails too and tells why, or goes on where it can.
    stop_between_batches(query)


def run_contest(
    common: Settings,
    groupings: Mapping[str, Mapping[str, Any]],
    folder: Path,
    destinations: Destinations = _NOWHERE,
) -> list[Course]:
    """Run each grouping until all messages are counted. Print and save their figures.

    All runs share one Spark session, which is warm before the first of them. A signal stops the comparison. It then
    shows the finished runs.

    Parameters
    ----------
    common : Settings
        The settings of all runs. The grouping and its options are replaced, and each run gets its own checkpoint below
        ``common.checkpoint``.
    groupings : mapping
        The grouping's name → its options.
    folder : Path
        The folder for the files.
    destinations : Destinations
        Where the runs' metrics go.

    Returns
    -------
    list of Course
        The runs that were drained. These are all runs, unless a signal stopped the comparison.

    Raises
    ------
    UsageError
        The topic is missing or empty, or it has other messages or another number of partitions.
    EnvironmentFault
        As for ``unskew.apps.driver.streaming_job.Run``, or the folder can't be written.

    """
    runs = [
        replace(common, grouping=name, options=options, checkpoint=f"{common.checkpoint}/{named(name).short}")
        for name, options in groupings.items()
    ]
    _require_messages(common)
    tables.prepare(folder)
    console = Console(highlight=False)
    console.print(f"{', '.join(groupings)} over {tables.sentence(common)}", soft_wrap=True)
    for name, options in groupings.items():
        if options:
            defaults = parameters(name)
            chosen = ", ".join(f"{option} {value} (default {defaults[option]})" for option, value in options.items())
            console.print(f"{name} with {chosen}", soft_wrap=True)
    courses: list[Course] = []
    with _forgetting(runs), Outputs(destinations) as outputs:
        if outputs.exporter is not None:
            console.print(f"metrics for Prometheus: {outputs.exporter.url}", soft_wrap=True)
        for course in _courses(runs, outputs):
            if not course.summary.tuples:
                raise UsageError(
                    f"none of the {course.summary.rejected:,} messages in {common.topic} is one of "
                    f"{common.source_type}; the reasons: {unskew()} results {common.topic}-rejected"
                )
            courses.append(course)
            console.print(_line(course), soft_wrap=True)
    if outputs.balance:
        console.print(outputs.balance, soft_wrap=True)
    if courses:
        console.print(tables.tables(courses, console.width))
        for file in tables.save(courses, common, folder):
            console.print(f"saved {file}", soft_wrap=True)
    for settings in runs[: len(courses)]:
        topics = result_topics(settings)
        console.print(f"results of {settings.grouping}: {unskew()} results {topics['aggregator']}", soft_wrap=True)
        console.print(f"  and its balance: {unskew()} results {topics['distribution']}", soft_wrap=True)
    return courses


@contextmanager
def _forgetting(runs: Sequence[Settings]) -> Iterator[None]:
    """Runs whose checkpoints are removed after the block: the topics with the numbers of their batches are, too."""
    try:
        yield
    finally:
        for settings in runs:
            forget_commits(settings)


def _courses(runs: Sequence[Settings], outputs: Outputs) -> Iterator[Course]:
    """The course of each run that is drained."""
    with _stop_by_signal() as stop, ExitStack() as stack:
        with Display(runs[0]) as display:
            stop.actions = [display.stopping]
            spark = stack.enter_context(session(runs[0], [settings.grouping for settings in runs]))
            display.say("warming Spark up; this isn't counted", always=True)
            warm_up(spark, runs[0], lambda: stop.requested)
        for settings in runs:
            recorder, monitor = Recorder(settings), Monitor(settings, outputs)
            with Display(settings, "starting", notice=lambda: outputs.losses) as display:
                run = Run(settings, [recorder, monitor.batch, display.batch], [monitor.progress])
                stop.actions = [display.stopping, run.stop]
                if stop.requested:
                    return
                display.target(run.waiting)
                outcome = run.run(spark)
                stop.actions = []
            if not outcome.drained:
                return
            yield recorder.course()


def _line(course: Course) -> str:
    return f"[{colour(course.grouping)}]■[/] {course.grouping}: {course.summary}"


def _require_messages(settings: Settings) -> None:
    name, connection = settings.topic, settings.connection
    if partitions_of(connection, name) is not None:
        ensure_topic(connection, name, settings.sources)  # complains of another number
        if any(end_offsets(connection, name).values()):
            return
    raise UsageError(
        f"topic {name} has no messages to compare with; publish some: {unskew()} produce {settings.source_type} "
        f"--topic {name} --partitions {settings.sources}"
    )


@contextmanager
def fresh_checkpoints(below: str | None = None, conf: Mapping[str, str] | None = None) -> Iterator[str]:
    """A location for the checkpoints of this comparison only. It is removed at the end. Default: in UNSKEW_HOME."""
    location = f"{(below or str(data_directory() / 'checkpoints')).rstrip('/')}/compare-{uuid.uuid4().hex[:8]}"
    try:
        yield location
    finally:
        with suppress(EnvironmentFault):
            location_by(location, conf or {}).folder().clear()


@dataclass
class _Stop:
    """Whether a signal has asked to stop, and what is done at the signal."""

    requested: bool = False
    actions: Sequence[Callable[[], None]] = ()


@contextmanager
def _stop_by_signal() -> Iterator[_Stop]:
    """Handle SIGINT and SIGTERM: they ask to stop."""
    request = _Stop()

    def stop(number: int, _: object) -> None:
        request.requested = True
        ask_to_stop(number)
        for action in request.actions:
            action()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
