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

from unskew.apps.aggregator.publisher import list_result_topics
from unskew.apps.checkpoint.location import configure_location
from unskew.apps.cli.comparison import tables
from unskew.apps.cli.comparison.run_record import RunRecord, RunRecorder
from unskew.apps.driver.dataflow import Dataflow
from unskew.apps.driver.preconditions import delete_commits_topic
from unskew.apps.driver.session import open_session
from unskew.apps.driver.streaming_job import StreamingJob
from unskew.apps.driver.termination import QueryHalted, stop_between_batches
from unskew.apps.metrics.display import Display
from unskew.apps.metrics.metrics_reporter import MetricsReporter
from unskew.apps.metrics.outputs import Destinations, Outputs
from unskew.apps.metrics.query_progress import get_kafka_source
from unskew.apps.settings import Settings
from unskew.directories import data_directory
from unskew.errors import EnvironmentFault, UsageError
from unskew.grouping import get_grouping, get_parameters
from unskew.grouping.registry import get_colour
from unskew.kafka.topics import count_partitions, end_offsets, ensure_topic
from unskew.shell import find_command_name, record_stop_signal

_WARM_UP = 15.0  # s after the first batch
_LOOK_EVERY = 0.05  # s
_FREE = "x1000000000"  # nearly; for groupings that must know what keys cost


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
            raise QueryHalted
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
            if time.monotonic() > deadline or not get_kafka_source(progress)["numInputRows"]:
                break
        time.sleep(_LOOK_EVERY)
    halt.set()
    # If the query has failed, the first run fails too and tells why, or goes on where it can.
    stop_between_batches(query)


def run_comparison(
    common: Settings, groupings: Mapping[str, Mapping[str, Any]], folder: Path, destinations: Destinations
) -> list[RunRecord]:
    """Run each grouping until all messages are counted. Print and save their figures.

    All runs share one Spark session, which is warm before the first of them. A signal stops the comparison. It then
    shows the finished runs, and returns only these.

    Parameters
    ----------
    common : Settings
        The settings of all runs. The grouping and its options are replaced, and each run gets its own checkpoint below
        ``common.checkpoint``.
    groupings : mapping
        The grouping's name → its options.
    folder, destinations : Path, Destinations
        Where the files and the runs' metrics go.

    Raises
    ------
    UsageError
        The topic is missing or empty, or it has other messages or another number of partitions.
    EnvironmentFault
        As for ``unskew.apps.driver.streaming_job.StreamingJob``, or the folder can't be written.

    """
    runs = [
        replace(common, grouping=name, options=options, checkpoint=f"{common.checkpoint}/{get_grouping(name).short}")
        for name, options in groupings.items()
    ]
    _require_messages(common)
    tables.prepare_folder(folder)
    console = Console(highlight=False)
    console.print(f"{', '.join(groupings)} over {tables.describe_settings(common)}", soft_wrap=True)
    for name in filter(groupings.get, groupings):  # those with options
        defaults, options = get_parameters(name), groupings[name]
        chosen = ", ".join(f"{option} {value} (default {defaults[option]})" for option, value in options.items())
        console.print(f"{name} with {chosen}", soft_wrap=True)
    courses: list[RunRecord] = []
    with ExitStack() as stack:
        for settings in runs:  # their checkpoints go, so the topics with the numbers of their batches do, too
            stack.callback(delete_commits_topic, settings)
        outputs = stack.enter_context(Outputs(destinations))
        if outputs.exporter is not None:
            console.print(f"metrics for Prometheus: {outputs.exporter.url}", soft_wrap=True)
        for course in _run_groupings(runs, outputs):
            if not course.summary.tuples:
                raise UsageError(
                    f"none of the {course.summary.rejected:,} messages in {common.topic} is one of "
                    f"{common.source_type}; the reasons: {find_command_name()} results {common.topic}-rejected"
                )
            courses.append(course)
            mark = f"[{get_colour(course.grouping)}]■[/]"
            console.print(f"{mark} {course.grouping}: {course.summary}", soft_wrap=True)
    if outputs.balance:
        console.print(outputs.balance, soft_wrap=True)
    if courses:
        console.print(tables.format_tables(courses, console.width))
        for file in tables.save_comparison(courses, common, folder):
            console.print(f"saved {file}", soft_wrap=True)
    for settings in runs[: len(courses)]:
        topics = list_result_topics(settings)
        console.print(
            f"results of {settings.grouping}: {find_command_name()} results {topics['aggregator']}", soft_wrap=True
        )
        console.print(f"  and its balance: {find_command_name()} results {topics['distribution']}", soft_wrap=True)
    return courses


def _run_groupings(runs: Sequence[Settings], outputs: Outputs) -> Iterator[RunRecord]:
    """The course of each run that is drained."""
    with _stop_by_signal() as stop, ExitStack() as stack:
        with Display(runs[0]) as display:
            stop.actions = [display.show_stop]
            spark = stack.enter_context(open_session(runs[0], [settings.grouping for settings in runs]))
            display.say("warming Spark up; this isn't counted", always=True)
            warm_up(spark, runs[0], lambda: stop.requested)
        for settings in runs:
            recorder, monitor = RunRecorder(settings), MetricsReporter(settings, outputs)
            with Display(settings, "starting", notice=lambda: outputs.losses) as display:
                run = StreamingJob(settings, [recorder, monitor.batch, display.batch], [monitor.progress])
                stop.actions = [display.show_stop, run.stop]
                if stop.requested:
                    return
                display.target(run.end_offset_sum)
                outcome = run.run(spark)
                stop.actions = []
            if not outcome.drained:
                return
            yield recorder.record()


def _require_messages(settings: Settings) -> None:
    name, connection = settings.topic, settings.connection
    if count_partitions(connection, name) is not None:
        ensure_topic(connection, name, settings.sources)  # complains of another number
        if any(end_offsets(connection, name).values()):
            return
    raise UsageError(
        f"topic {name} has no messages to compare with; publish some: {find_command_name()} produce "
        f"{settings.source_type} --topic {name} --partitions {settings.sources}"
    )


@contextmanager
def make_checkpoints(below: str | None = None, conf: Mapping[str, str] | None = None) -> Iterator[str]:
    """A location for the checkpoints of this comparison only. It is removed at the end. Default: in UNSKEW_HOME."""
    location = f"{(below or str(data_directory() / 'checkpoints')).rstrip('/')}/compare-{uuid.uuid4().hex[:8]}"
    try:
        yield location
    finally:
        with suppress(EnvironmentFault):
            configure_location(location, conf or {}).folder().clear()


@dataclass
class _StopRequest:
    """Whether a signal has asked to stop, and what is done at the signal."""

    requested: bool = False
    actions: Sequence[Callable[[], None]] = ()


@contextmanager
def _stop_by_signal() -> Iterator[_StopRequest]:
    """Handle SIGINT and SIGTERM: they ask to stop."""
    request = _StopRequest()

    def stop(number: int, _: object) -> None:
        request.requested = True
        record_stop_signal(number)
        for action in request.actions:
            action()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
