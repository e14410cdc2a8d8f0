"""Groupings one after the other on one Spark session, and what is told of them."""

import signal
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from unskew.apps.checkpoint.place import Place
from unskew.apps.compare import tables
from unskew.apps.compare.course import Course, Recorder
from unskew.apps.compare.warmup import warm_up
from unskew.apps.monitoring.colours import colour
from unskew.apps.monitoring.display import Display
from unskew.apps.monitoring.monitor import Monitor
from unskew.apps.monitoring.outputs import Destinations, Outputs
from unskew.apps.run.run import Run
from unskew.apps.run.session import session
from unskew.apps.topology.publisher import result_topics
from unskew.apps.topology.settings import Settings
from unskew.deploy.client.topics import end_offsets, ensure_topic, partitions_of
from unskew.deploy.home import home
from unskew.errors import EnvironmentFault, UsageError
from unskew.grouping import named, parameters
from unskew.shell import unskew

_NOWHERE = Destinations()


def hold(
    common: Settings,
    groupings: Mapping[str, Mapping[str, Any]],
    folder: Path,
    destinations: Destinations = _NOWHERE,
) -> list[Course]:
    """Run each grouping until all is counted; print and save how they did.

    One Spark session serves all, and is warm before the first run. Stopped by a signal, it ends with what is finished.

    Parameters
    ----------
    common : Settings
        Of all runs, but for grouping, its options, and checkpoint (each has its own below ``common.checkpoint``).
    groupings : mapping
        groupingType → its options.
    folder : Path
        For the files.
    destinations : Destinations
        Where the runs' metrics go.

    Returns
    -------
    list of Course
        Of the runs that came to their end; all, unless it was stopped.

    Raises
    ------
    UsageError
        The topic is missing, empty, has other messages or another number of partitions.
    EnvironmentFault
        As ``unskew.apps.run.run.Run``; or the folder can't be written.

    """
    plan = [
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
    with Outputs(destinations) as outputs:
        if outputs.exporter is not None:
            console.print(f"metrics for Prometheus: {outputs.exporter.url}", soft_wrap=True)
        for course in _courses(plan, outputs):
            if not course.summary.tuples:
                raise UsageError(
                    f"none of the {course.summary.rejected:,} messages in {common.source_name} is one of "
                    f"{common.source_type}; the reasons: {unskew()} results {common.source_name}-rejected"
                )
            courses.append(course)
            console.print(_line(course), soft_wrap=True)
    if outputs.balance:
        console.print(outputs.balance, soft_wrap=True)
    if courses:
        console.print(tables.tables(courses, console.width))
        for file in tables.save(courses, common, folder):
            console.print(f"saved {file}", soft_wrap=True)
    for settings in plan[: len(courses)]:
        topics = result_topics(settings)
        console.print(f"results of {settings.grouping}: {unskew()} results {topics['aggregator']}", soft_wrap=True)
        console.print(f"  and its balance: {unskew()} results {topics['distribution']}", soft_wrap=True)
    return courses


def _courses(plan: Sequence[Settings], outputs: Outputs) -> Iterator[Course]:
    """Run the plan; the courses of the runs that were drained."""
    with _wish_to_stop() as wish, ExitStack() as stack:
        with Display(plan[0]) as display:
            wish.actions = [display.stopping]
            spark = stack.enter_context(session(plan[0], [settings.grouping for settings in plan]))
            display.say("warming Spark up; this isn't counted", always=True)
            warm_up(spark, plan[0], lambda: wish.expressed)
        for settings in plan:
            recorder, monitor = Recorder(settings), Monitor(settings, outputs)
            with Display(settings, "starting", notice=lambda: outputs.losses) as display:
                run = Run(settings, [recorder, monitor.batch, display.batch], [monitor.progress])
                wish.actions = [display.stopping, run.stop]
                if wish.expressed:
                    return
                display.target(run.waiting)
                outcome = run.run(spark)
                wish.actions = []
            if not outcome.drained:
                return
            yield recorder.course()


def _line(course: Course) -> str:
    summary = course.summary
    return (
        f"[{colour(course.grouping)}]■[/] {course.grouping}: {summary.tuples:,} tuples at "
        f"{summary.tuples_per_second:,.0f}/s, STD_DEV {summary.std_dev:.2f}, "
        f"slowest worker {summary.straggling:.2f} × mean"
    )


def _require_messages(settings: Settings) -> None:
    name, connection = settings.source_name, settings.connection
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
    """A location that nobody else has, removed at the end; by default in the project's own directory."""
    location = f"{(below or str(home() / 'checkpoints')).rstrip('/')}/compare-{uuid.uuid4().hex[:8]}"
    try:
        yield location
    finally:
        with suppress(EnvironmentFault):
            Place.of(location, conf).folder().clear()


@dataclass
class _Wish:
    """Whether the user wants to stop, and what to do when that is said."""

    expressed: bool = False
    actions: Sequence[Callable[[], None]] = ()


@contextmanager
def _wish_to_stop() -> Iterator[_Wish]:
    """Take SIGINT and SIGTERM as wishes."""
    wish = _Wish()

    def stop(*_: object) -> None:
        wish.expressed = True
        for action in wish.actions:
            action()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield wish
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
