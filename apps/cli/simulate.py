"""`unskew simulate`: how balanced a stream would be with each grouping, and at what price."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from unskew.apps.cli import option_groups
from unskew.apps.cli.connection_options import JsonOption
from unskew.apps.cli.field_options import options_from
from unskew.apps.cli.option_groups import KafkaOptions, OperatorOptions
from unskew.apps.settings import parse_numbers, spell_grouping
from unskew.errors import UsageError

if TYPE_CHECKING:
    from unskew.apps.cli.simulation.batch_times import BatchTiming
    from unskew.apps.cli.simulation.input_stream import StreamSpec, TimedKeys
    from unskew.apps.cli.simulation.simulation import Contestant
    from unskew.grouping.keys import Keys
    from unskew.grouping.simulator import SimulationOutcome

_timing_option = partial(typer.Option, rich_help_panel="Timing options")
_batch_option = partial(typer.Option, rich_help_panel="Options of the time that batches take")


@dataclass(frozen=True)
class BatchOptions:
    """What tuples and batches cost."""

    cost: Annotated[
        str | None,
        typer.Option(
            metavar="MS,…",
            help="Cost of a tuple (ms): shows how long batches take. Several costs, or 1..64: one for each class of "
            "keys.",
            show_default="1 in queues",
        ),
    ] = None
    cores: Annotated[
        int | None,
        _batch_option(
            min=1,
            help="Cores that compute the tuples' cost, all workers together.",
            show_default="--cost is waiting, --work computes on the cores of this machine",
        ),
    ] = None
    batch: Annotated[
        int | None,
        _batch_option(
            min=1, help="Tuples of a batch.", show_default="a second of all workers' work, at most a million"
        ),
    ] = None
    fixed: Annotated[
        float | None, _batch_option(min=0, help="Fixed cost of a batch on your cluster (ms).", show_default="400")
    ] = None

    def is_asked(self, work: str | None) -> bool:
        """Whether the time of batches is asked for.

        Raises
        ------
        UsageError
            Options contradict each other.

        """
        if self.cost is not None and work is not None:
            raise UsageError("--cost and --work are both given; valid: one of them, as --work measures the cost")
        asked = self.cost is not None or work is not None
        given = [name for name in ("cores", "batch", "fixed") if getattr(self, name) is not None]
        if given and not asked:
            raise UsageError(f"--{given[0]} is about the time of batches; valid: with --cost or --work")
        return asked

    @property
    def costs(self) -> list[float]:
        """The cost (ms) of each class of keys."""
        return parse_numbers("--cost", self.cost or "1")


@dataclass(frozen=True)
class SimulationOptions:
    """What is simulated: a stream, groupings and workers."""

    stream: Annotated[
        str,
        typer.Argument(
            help="A generator such as zipf:z=1.2,k=100000, a dataset such as COUNTRY_SKEW_R80, "
            "FILE:COLUMN (Parquet, CSV, TSV, JSON lines), counts:FILE.csv (key,count), kafka:TOPIC or "
            "kafka:TOPIC:FIELD."
        ),
    ] = "zipf:z=1.2,k=100000"
    groupings: Annotated[
        str, typer.Option(metavar="NAME,…", help="Groupings; NAME:PARAMETER=VALUE:… sets parameters.")
    ] = "PLANNED,BOUNDED_LOAD,PARTIAL_KEY,D_CHOICES,W_CHOICES,DYNAMIC_KEY,KEY,SHUFFLE"
    workers: Annotated[str, typer.Option(metavar="W,…", help="Number of workers W; several numbers give a curve.")] = (
        "10"
    )
    sources: Annotated[
        int | None, typer.Option(min=1, help="Number of sources S.", show_default="a topic's partitions, otherwise 5")
    ] = None
    tuples: Annotated[int, typer.Option(min=1, help="Most tuples to simulate; a file or topic may have fewer.")] = (
        1_000_000
    )
    split: Annotated[str, typer.Option(help="How tuples are spread over the sources: 'even', or by 'key'.")] = "even"
    factors: Annotated[
        str,
        typer.Option(metavar="F,…", help="Each worker's multiple of --cost, such as 1,1,2; repeated over the workers."),
    ] = "1"
    factors_end: Annotated[
        str | None,
        typer.Option(
            metavar="F,…", help="The factors at the end, to which the workers' speeds drift.", show_default="no drift"
        ),
    ] = None
    load: Annotated[float, _timing_option(help="Share of the workers' capacity that the stream needs.")] = 0.8
    poisson: Annotated[bool, _timing_option(help="Draw the times between arrivals at random.")] = False
    recorded: Annotated[
        bool, _timing_option(help="Use the recorded times of arrival: a column 'time', or Kafka's timestamps.")
    ] = False
    window: Annotated[
        float | None, _timing_option(help="How often partial results go to the aggregator (s).", show_default="end")
    ] = None
    feedback_interval: Annotated[float, _timing_option(help="Time between reports (s).")] = 1.0
    feedback_delay: Annotated[float, _timing_option(help="Time until a plan takes effect (s).")] = 0.0
    feedback_transfer: Annotated[
        float, _timing_option(help="Time that a move of a state takes both workers, for each tuple in it (ms).")
    ] = 0.0
    samples: Annotated[int, typer.Option(min=1, help="Number of points of each series.")] = 200
    seed: Annotated[int, typer.Option(min=0, help="Seed of the stream and the hash functions.")] = 0

    @property
    def schemes(self) -> list[tuple[str, str, dict[str, Any]]]:
        """The groupings as (label, name, parameters)."""
        # A comma before a number belongs to a parameter of several numbers: weights=1,1,2.
        texts = [text.strip() for text in re.split(r",(?!\s*[-+.\d])", self.groupings) if text.strip()]
        if not texts:
            raise UsageError("--groupings is empty; valid: names separated by commas, such as KEY,PARTIAL_KEY")
        return [_parse_grouping(text) for text in texts]

    @property
    def worker_counts(self) -> list[int]:
        """The numbers of workers."""
        return [int(number) for number in parse_numbers("--workers", self.workers, least=1, whole=True)]

    @property
    def speeds(self) -> dict[str, list[float] | None]:
        """The workers' factors at the beginning, and at the end."""
        end = self.factors_end
        return {
            "factors": parse_numbers("--factors", self.factors),
            "factors_end": None if end is None else parse_numbers("--factors-end", end),
        }

    def arguments(self) -> dict[str, Any]:
        """The simulation's arguments besides keys, their times and costs, and the number of sources."""
        from unskew.apps.cli.simulation.simulation import FeedbackTiming

        feedback = FeedbackTiming(1000 * self.feedback_interval, 1000 * self.feedback_delay, self.feedback_transfer)
        settings = {"split": self.split, "samples": self.samples, "window": self.window and 1000 * self.window}
        arrivals = {"load": self.load, "poisson": self.poisson, "seed": self.seed}
        return {**self.speeds, **arrivals, "feedback": feedback, "settings": settings}


@dataclass(frozen=True)
class OutputOptions:
    """What is shown of a simulation, and where."""

    details: Annotated[
        bool, typer.Option("--details", help="Show imbalance, queues, times and messages of each grouping too.")
    ] = False
    output: Annotated[Path | None, typer.Option(help="Directory for series.parquet, figures.csv and pictures.")] = None
    as_json: JsonOption = False


@options_from(
    batches=BatchOptions, work=OperatorOptions, options=SimulationOptions, shown=OutputOptions, kafka=KafkaOptions
)
def simulate(
    batches: BatchOptions, work: OperatorOptions, options: SimulationOptions, shown: OutputOptions, kafka: KafkaOptions
) -> None:
    """Simulate groupings on a stream: what each worker would get, and how many states this would need.

    Routes the stream with each grouping, and prints a row for each, the cheapest first.
    The row above them is the bound by which costs are measured. A line below names the hottest keys and the cheapest
    grouping that is even. --json prints an object for each number of workers instead.
    With --cost or --work it prints how long batches would take instead, and which grouping to choose, if any.
    --work measures your own work on a sample of the stream.
    --details adds the queues and times of simulated workers. --output saves all measures over time.

    Example: unskew simulate kafka:events:user --workers 50 --sources 16

    Example: unskew simulate kafka:events:user --workers 50 --cost 2
    """
    schemes, counts = options.schemes, options.worker_counts
    asked, speeds = batches.is_asked(work.work), options.speeds

    # pyarrow and numba: the commands' help needn't wait for them.
    from unskew.apps.cli.simulation import input_stream as source
    from unskew.apps.cli.simulation import simulation, tables

    contestants = [simulation.Contestant(*each) for each in schemes]
    given = source.StreamSpec(options.stream, options.tuples, options.seed, kafka.connection, timed=options.recorded)
    partitions = given.partitions()
    sources = options.sources or len(partitions or ()) or 5
    console = Console()
    if asked:
        settings = {**speeds, "sources": sources, "split": options.split, "seed": options.seed}
        _print_times(console, _make_timing(given, batches, work, settings), contestants, counts)
        _print_partitions(console, partitions)
        given.rejects.show(console)
        if not shown.details and shown.output is None:
            return
    try:
        arguments, read = options.arguments(), _read_stream(given, recorded=options.recorded)
        keys, times = simulation.encode_keys(read.keys), read.times if options.recorded else None
        simulated = simulation.Simulation(keys, times, costs=batches.costs, sources=sources, **arguments)
        outcomes: dict[tuple[str, int], SimulationOutcome] = {}
        for count in counts:
            found = simulated.outcomes(_show_progress(contestants), count)
            outcomes |= {(label, count): outcome for label, outcome in found.items()}
            if shown.as_json:
                answers = tables.rank_groupings(found, simulated.keys)
                print(json.dumps(tables.describe_simulation(found, answers, simulated.keys)))
            else:
                _print_answers(console, found, simulated.keys, details=shown.details)
        _print_partitions(console, None if shown.as_json else partitions)
        if not asked:
            given.rejects.show(Console(stderr=True) if shown.as_json else console)
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from None
    if shown.output is not None:
        for file in tables.save_simulation(outcomes, shown.output, options.stream):
            console.print(f"wrote {file}")


def _print_answers(console: Console, found: "Mapping[str, SimulationOutcome]", keys: "Keys", *, details: bool) -> None:
    from unskew.apps.cli.simulation import tables

    answers = tables.rank_groupings(found, keys)
    console.print(tables.make_table(found, answers, keys))
    workers = next(iter(found.values())).workers
    console.print(tables.describe_verdict(answers, keys, workers), highlight=False, soft_wrap=True, markup=False)
    if details:
        console.print(tables.make_detail_tables(found, console.width))


def _show_progress(contestants: "Sequence[Contestant]") -> "Iterator[Contestant]":
    """The groupings, while a bar on the terminal shows which is under way. The first time, it is compiled as well."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("simulating", total=len(contestants))
        for contestant in contestants:
            bar.update(task, description=f"simulating {contestant.label}")
            yield contestant
            bar.advance(task)


def _print_partitions(console: Console, partitions: Mapping[int, int] | None) -> None:
    """Say how uneven a topic's partitions are."""
    from unskew.apps.cli.simulation import tables

    if partitions is not None:
        console.print(tables.describe_partitions(partitions), highlight=False, soft_wrap=True)


def _read_stream(given: "StreamSpec", *, recorded: bool) -> "TimedKeys":
    """The whole stream, which must have tuples, and times if these are asked for."""
    read = given.read()
    if not len(read.keys):
        why = "".join(f": {reason}" for reason, _ in given.rejects.reasons.most_common(1))
        raise UsageError(f"stream {given.spec!r} has no tuples{why}")
    if recorded and read.times is None:
        raise UsageError(f"--recorded: stream {given.spec!r} says no times; a column 'time' (ms) or a Kafka topic does")
    return read


def _make_timing(
    given: "StreamSpec", batches: BatchOptions, work: OperatorOptions, settings: Mapping[str, Any]
) -> "BatchTiming":
    """The stream with what its tuples cost: as given, or as measured on a sample of it.

    A cost that is given is waiting, unless there are cores that compute it.
    """
    from unskew.apps.cli.simulation.batch_times import BatchTiming
    from unskew.apps.cli.simulation.time_model import CostConstants, TupleCost

    costs = batches.costs
    cost = TupleCost(sum(costs) / len(costs), cpu=0.0 if batches.cores is None else 1.0)
    if work.work is not None:
        from unskew.apps.cli.simulation import cost_sample

        cost = cost_sample.measure_cost(*cost_sample.read_sample(given, work.settings()))
        costs = [cost.ms]
    prices = CostConstants() if batches.fixed is None else CostConstants(fixed=batches.fixed / 1000)
    cores = batches.cores or os.cpu_count() or 1
    return BatchTiming(given, cost, costs, cores=cores, prices=prices, batch=batches.batch, **settings)


def _print_times(
    console: Console, timing: "BatchTiming", contestants: "Sequence[Contestant]", counts: Sequence[int]
) -> None:
    """Print how long batches take, and what to choose, for each number of workers."""
    from unskew.apps.cli.simulation import tables
    from unskew.apps.cli.simulation.time_model import KEY, Prediction, describe_recommendation

    for workers in counts:
        try:
            courses = timing.courses(contestants, workers)
        except (ValueError, TypeError) as error:
            raise UsageError(str(error)) from None
        predictions = {label: Prediction.of(course, courses[KEY]) for label, course in courses.items()}
        console.print(tables.make_time_table(predictions, courses[KEY], timing.sources))
        console.print(describe_recommendation(predictions, courses[KEY]), highlight=False, soft_wrap=True)


def _parse_grouping(text: str) -> tuple[str, str, dict[str, Any]]:
    """``NAME:OPTION=VALUE:…`` as (label, name, options)."""
    name, *pairs = text.split(":")
    name = spell_grouping(name)
    return ":".join([name, *pairs]), name, option_groups.GroupingOptions(grouping_option=pairs).of([name])[name]
