"""`unskew simulate`: how balanced a stream would be with each grouping, and the cost."""

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from unskew.apps.cli.connection_options import JsonOption
from unskew.apps.cli.field_options import options_from
from unskew.apps.cli.option_groups import KafkaOptions, OperatorOptions, SampledOperatorOptions, parse_parameters
from unskew.apps.cli.simulation import refusals
from unskew.apps.settings import parse_numbers, spell_grouping
from unskew.errors import UsageError
from unskew.shell import parse_pair

if TYPE_CHECKING:
    from rich.table import Table

    from unskew.apps.cli.simulation.batch_times import BatchTiming
    from unskew.apps.cli.simulation.input_stream import StreamSpec
    from unskew.apps.cli.simulation.simulation import Contestant, Simulation
    from unskew.apps.cli.simulation.sweep import SweptFigures
    from unskew.grouping.keys import Keys
    from unskew.grouping.simulator import SimulationOutcome

_timing_option = partial(typer.Option, rich_help_panel="Timing options")
_batch_option = partial(typer.Option, rich_help_panel="Options of the time that batches take")
_sweep_option = partial(typer.Option, rich_help_panel="Options of a table of many simulations")
_STREAM = "zipf:z=1.2,k=100000"
#: The options of the simulation that --sweep may vary; all other names are groupings' parameters.
_SWEPT = {"sources": int, "seed": int, "tuples": int, "load": float, "feedback_interval": float}


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
            help="Cores that compute the tuples' cost, for all workers.",
            show_default="--cost is waiting, --work computes on the cores of this machine",
        ),
    ] = None
    batch: Annotated[
        int | None,
        _batch_option(
            min=1,
            help="Tuples of a batch, including PLANNED's if batch times aren't requested.",
            show_default="a second of all workers' work, at most a million",
        ),
    ] = None
    fixed: Annotated[
        float | None, _batch_option(min=0, help="Fixed cost of a batch on your cluster (ms).", show_default="400")
    ] = None

    def is_asked(self, work: OperatorOptions) -> bool:
        """Whether the time of batches is asked for.

        Raises
        ------
        UsageError
            Options contradict each other.

        """
        if self.cost is not None and work.work is not None:
            raise UsageError("--cost and --work are both given; valid: one of them, as --work measures the cost")
        if work.work_option and work.work is None:
            raise UsageError(f"--work-option is {work.work_option[0]!r}; valid: with --work")
        asked = self.cost is not None or work.work is not None
        given = [name for name in ("cores", "fixed") if getattr(self, name) is not None]
        if given and not asked:
            raise UsageError(f"--{given[0]} is about the time of batches; valid: with --cost or --work")
        return asked

    @property
    def costs(self) -> list[float]:
        """The cost (ms) of each class of keys."""
        return parse_numbers("--cost", self.cost or "1")


@dataclass(frozen=True)
class SimulationOptions:
    """What is simulated: streams, groupings and workers."""

    stream: Annotated[
        list[str] | None,
        typer.Argument(
            help="A generator such as zipf:z=1.2,k=100000, a dataset such as COUNTRY_SKEW_R80, "
            "FILE:COLUMN (Parquet, CSV, TSV, JSON lines), counts:FILE.csv (key,count), kafka:TOPIC or "
            "kafka:TOPIC:FIELD. Several streams give one table.",
            show_default=_STREAM,
        ),
    ] = None
    groupings: Annotated[
        str, typer.Option(metavar="NAME,…", help="Groupings; NAME:PARAMETER=VALUE:… sets parameters.")
    ] = "PLANNED,BOUNDED_LOAD,PARTIAL_KEY,D_CHOICES,W_CHOICES,DYNAMIC_KEY,KEY,SHUFFLE"
    workers: Annotated[str, typer.Option(metavar="W,…", help="Number of workers W; several numbers give a curve.")] = (
        "10"
    )
    sources: Annotated[
        int | None, typer.Option(min=1, help="Number of sources S.", show_default="a topic's partitions, otherwise 5")
    ] = None
    tuples: Annotated[int, typer.Option(min=1, help="Maximum of tuples to simulate; a stream may have fewer.")] = (
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
    join: Annotated[
        str | None,
        typer.Option(
            metavar="STREAM",
            help="Join the stream with this one by key, and show the workers' loads with each join method.",
        ),
    ] = None
    write: Annotated[
        bool, typer.Option("--write", help="Write a table partitioned by key; shows each method's files and tasks.")
    ] = False
    samples: Annotated[int, typer.Option(min=1, help="Number of points of each series.")] = 200
    seed: Annotated[int, typer.Option(min=0, help="Seed of the stream and the hash functions.")] = 0
    sweep: Annotated[
        list[str] | None,
        _sweep_option(
            metavar="NAME=VALUE,…",
            help="Simulate with each of these values, and print one table: of a parameter of groupings, such as "
            f"slack=0.02,0.07, or of {', '.join(_SWEPT)}. Can be repeated.",
        ),
    ] = None
    stretches: Annotated[
        int,
        _sweep_option(
            min=1, help="Sections of a changing stream: the bound uses a key's greatest share in any section."
        ),
    ] = 1

    @property
    def streams(self) -> list[str]:
        """The streams, one at least."""
        return self.stream or [_STREAM]

    @property
    def is_swept(self) -> bool:
        """Whether there are several simulations, besides those of groupings and workers."""
        return bool(self.sweep) or len(self.streams) > 1

    @property
    def _sweeps(self) -> dict[str, list[str]]:
        """Name → the values to simulate with."""
        swept: dict[str, list[str]] = {}
        for text in self.sweep or []:
            name, values = parse_pair(text, "--sweep")
            if (name := name.replace("-", "_")) in swept:
                raise UsageError(f"--sweep {name} is given twice; valid: --sweep {name}=VALUE,… with all values")
            swept[name] = [value for value in values.split(",") if value]
            if not swept[name]:
                raise UsageError(f"--sweep is {text!r}; valid: NAME=VALUE,…")
        return swept

    def cases(self) -> "Iterator[tuple[dict[str, float], SimulationOptions]]":
        """Each combination of the options that are swept: their values, and all options with these."""
        swept = {name: values for name, values in self._sweeps.items() if name in _SWEPT}
        least = {"sources": 1, "tuples": 1}
        read = [
            [kind(one) for one in parse_numbers(f"--sweep {name}", text, whole=kind is int, least=least.get(name, 0))]
            for name, text, kind in ((name, ",".join(values), _SWEPT[name]) for name, values in swept.items())
        ]
        for values in product(*read):
            case = dict(zip(swept, values, strict=True))
            yield case, replace(self, **case)

    @property
    def schemes(self) -> list[tuple[str, str, dict[str, Any]]]:
        """The groupings as (label, name, parameters)."""
        # A comma before a number belongs to a parameter of several numbers: weights=1,1,2.
        texts = [text.strip() for text in re.split(r",(?!\s*[-+.\d])", self.groupings) if text.strip()]
        if not texts:
            raise UsageError("--groupings is empty; valid: names separated by commas, such as KEY,PARTIAL_KEY")
        swept = {name: values for name, values in self._sweeps.items() if name not in _SWEPT}
        return [_parse_grouping(each) for text in texts for each in _expand_grouping(text, swept, texts)]

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
        from unskew.grouping.arguments import check_number

        # Checked here, where an error has the option's name and its unit.
        feedback = FeedbackTiming(
            1000 * check_number("--feedback-interval", self.feedback_interval, 0, above=True),
            1000 * check_number("--feedback-delay", self.feedback_delay, 0),
            check_number("--feedback-transfer", self.feedback_transfer, 0),
        )
        window = None if self.window is None else 1000 * check_number("--window", self.window, 0, above=True)
        settings = {"split": self.split, "samples": self.samples, "window": window}
        arrivals = {"load": self.load, "poisson": self.poisson, "seed": self.seed}
        return {**self.speeds, **arrivals, "feedback": feedback, "settings": settings}


@dataclass(frozen=True)
class OutputOptions:
    """What is shown of a simulation, and where."""

    details: Annotated[
        bool, typer.Option("--details", help="Show imbalance, queues, times and messages of each grouping too.")
    ] = False
    show: Annotated[
        str | None,
        _sweep_option(
            metavar="FIGURE,…",
            help="One table, and what its cells show: replication (workers a key), excess (that over the bound), added "
            "(states besides each key's first), fullest (keys of one worker), lasting and worst (max/mean of the "
            "second half's tenths, their mean and greatest), hottest (workers of the hottest key), score.",
            show_default="replication,lasting, with several streams or --sweep",
        ),
    ] = None
    output: Annotated[Path | None, typer.Option(help="Directory for series.parquet, figures.csv and pictures.")] = None
    as_json: JsonOption = False


@options_from(
    batches=BatchOptions,
    work=SampledOperatorOptions,
    options=SimulationOptions,
    shown=OutputOptions,
    kafka=KafkaOptions,
)
def simulate(
    batches: BatchOptions,
    work: SampledOperatorOptions,
    options: SimulationOptions,
    shown: OutputOptions,
    kafka: KafkaOptions,
) -> None:
    """Simulate groupings on a stream: each worker's load, and how many states this would need.

    Routes the stream with each grouping, and prints a row for each, the best score first.
    The row above them is the bound by which scores are measured. A line below names the hottest keys and the even
    grouping with the best score. --json prints an object for each number of workers instead.
    Several streams, or --sweep, give one table of many simulations instead.
    With --cost or --work it prints how long batches would take instead, and which grouping to choose, if any.
    --work measures your own work on a sample of the stream.
    --details adds the queues and times of simulated workers. --output saves all measures over time.
    With --join it prints what a join of two streams by key would do instead, and what to do about hot keys.
    With --write it prints the files and tasks of a table that is partitioned by the key instead.

    Example: unskew simulate kafka:events:user --workers 50 --sources 16

    Example: unskew simulate kafka:events:user --workers 50 --cost 2

    Example: unskew simulate zipf hot kafka:events --workers 10,50 --groupings BOUNDED_LOAD --sweep slack=0.02,0.1
    """
    if options.join is not None:
        from unskew.apps.cli.simulation import join_report
        from unskew.apps.cli.simulation.input_stream import StreamSpec

        refusals.refuse_other_options("join", (batches, work, options, shown))
        rest = options.tuples, options.seed, kafka.connection
        given = [StreamSpec(name, *rest, timed=False) for name in (options.streams[0], options.join)]
        join_report.print_join(given, options.worker_counts, batches.batch, as_json=shown.as_json)
        return
    if options.write:
        from unskew.apps.cli.simulation import write_report
        from unskew.apps.cli.simulation.input_stream import StreamSpec

        refusals.refuse_other_options("write", (batches, work, options, shown))
        stream = StreamSpec(options.streams[0], options.tuples, options.seed, kafka.connection, timed=False)
        write_report.print_writes(stream, options.worker_counts, as_json=shown.as_json)
        return
    asked = batches.is_asked(work)
    swept = options.is_swept or shown.show is not None
    if swept and asked:
        raise UsageError("--sweep, --show and several streams show no times; valid: without --cost and --work")
    if swept:
        refusals.refuse_for_table((options, shown))
    if asked:
        refusals.refuse_for_times((options, shown))

    # pyarrow and numba: the commands' help needn't wait for them.
    from unskew.apps.cli.simulation.simulation import Contestant

    contestants = [Contestant(*each) for each in options.schemes]
    if swept:
        _print_sweep(Console(), _sweep(contestants, batches, options, kafka), shown)
    else:
        _print_simulation(Console(), contestants, batches, work if asked else None, options, shown, kafka)


def _print_simulation(
    console: Console,
    contestants: "Sequence[Contestant]",
    batches: BatchOptions,
    work: OperatorOptions | None,
    options: SimulationOptions,
    shown: OutputOptions,
    kafka: KafkaOptions,
) -> None:
    """Print what the groupings do with one stream; with a work, how long its batches take."""
    from unskew.apps.cli.simulation import input_stream as source
    from unskew.apps.cli.simulation import tables

    counts, stream = options.worker_counts, options.streams[0]
    given = source.StreamSpec(stream, options.tuples, options.seed, kafka.connection, timed=options.recorded)
    partitions = given.partitions()
    sources = options.sources or len(partitions or ()) or 5
    if work is not None:
        settings = {**options.speeds, "sources": sources, "split": options.split, "seed": options.seed}
        _print_times(console, _make_timing(given, batches, work, settings), contestants, counts)
        _print_partitions(console, partitions)
        given.rejects.show(console)
        if not shown.details and shown.output is None:
            return
    try:
        simulated = _load_simulation(given, batches, options, sources)
        outcomes: dict[tuple[str, int], SimulationOutcome] = {}
        for count in counts:
            found = simulated.outcomes(_show_progress(contestants), count)
            outcomes |= {(label, count): outcome for label, outcome in found.items()}
            if shown.as_json:
                answers = tables.rank_groupings(found, simulated.keys, options.stretches)
                print(json.dumps(tables.describe_simulation(found, answers, simulated.keys)))
            else:
                _print_answers(console, found, simulated.keys, options.stretches, details=shown.details)
        _print_partitions(console, None if shown.as_json else partitions)
        if work is None:
            given.rejects.show(Console(stderr=True) if shown.as_json else console)
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from None
    if shown.output is not None:
        for file in tables.save_simulation(outcomes, shown.output, given.spec):
            print(f"wrote {file}", file=sys.stderr if shown.as_json else None)


def _load_simulation(
    given: "StreamSpec", batches: BatchOptions, options: SimulationOptions, sources: int
) -> "Simulation":
    """The whole stream, to be simulated with these options."""
    from unskew.apps.cli.simulation import simulation

    arguments, read = options.arguments(), given.read_some(recorded=options.recorded)
    arguments["settings"]["batch"] = batches.batch
    keys, times = simulation.encode_keys(read.keys), read.times if options.recorded else None
    return simulation.Simulation(keys, times, costs=batches.costs, sources=sources, **arguments)


def _sweep(
    contestants: "Sequence[Contestant]", batches: BatchOptions, options: SimulationOptions, kafka: KafkaOptions
) -> "Iterator[SweptFigures]":
    """The figures of each stream, swept value, number of workers and grouping."""
    from unskew.apps.cli.simulation import input_stream as source
    from unskew.apps.cli.simulation import sweep, tables

    load = lru_cache(maxsize=1)(partial(source.StreamSpec, connect=kafka.connection, timed=options.recorded))
    try:
        for stream, (values, case) in product(options.streams, options.cases()):
            given = load(stream, case.tuples, case.seed)
            simulated = _load_simulation(given, batches, case, case.sources or len(given.partitions() or ()) or 5)
            for count in case.worker_counts:
                found = simulated.outcomes(_show_progress(contestants, f"{stream}, W = {count}"), count)
                for label, outcome in found.items():
                    figures = tables.compute_figures(outcome, simulated.keys, options.stretches)
                    yield sweep.SweptFigures(stream, count, values, label, outcome.grouping, figures)
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from None


def _print_sweep(console: Console, rows: "Iterator[SweptFigures]", shown: OutputOptions) -> None:
    """Print a row for each stream, number of workers and swept value, with a column for each grouping."""
    from unskew.apps.cli.simulation import sweep

    names = sweep.parse_figures(shown.show or "replication,lasting")
    found: list[SweptFigures] = []
    for row in rows:
        found.append(row)
        if shown.as_json:
            print(json.dumps(row.describe()), flush=True)
    if not shown.as_json:
        table = sweep.make_table(found, names)
        _print_whole(console, table)
    if shown.output is not None:
        for file in sweep.save_sweep(found, shown.output):
            print(f"wrote {file}", file=sys.stderr if shown.as_json else None)


def _print_answers(
    console: Console, found: "Mapping[str, SimulationOutcome]", keys: "Keys", stretches: int, *, details: bool
) -> None:
    from unskew.apps.cli.simulation import tables

    answers = tables.rank_groupings(found, keys, stretches)
    _print_whole(console, tables.make_table(found, answers, keys, stretches))
    workers = next(iter(found.values())).workers
    console.print(tables.describe_verdict(answers, keys, workers), highlight=False, soft_wrap=True, markup=False)
    if details:
        console.print(tables.make_detail_tables(found, console.width))


def _print_whole(console: Console, table: "Table") -> None:
    """Print a table with all that its cells have, in lines that a narrow terminal wraps."""
    width = console.width
    console.width = max(width, console.measure(table, options=console.options.update(width=10_000)).maximum)
    console.print(table)
    console.width = width


def _show_progress(contestants: "Sequence[Contestant]", where: str = "simulating") -> "Iterator[Contestant]":
    """The groupings, while a bar on the terminal shows which is under way. The first time, it is compiled as well."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    # Elsewhere than on a terminal it would leave an empty line.
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(where, total=len(contestants))
        for contestant in contestants:
            bar.update(task, description=f"{where} {contestant.label}")
            yield contestant
            bar.advance(task)


def _print_partitions(console: Console, partitions: Mapping[int, int] | None) -> None:
    """Say how uneven a topic's partitions are."""
    from unskew.apps.cli.simulation import tables

    if partitions is not None:
        console.print(tables.describe_partitions(partitions), highlight=False, soft_wrap=True)


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
        _print_whole(console, tables.make_time_table(predictions, courses[KEY], timing.sources))
        console.print(describe_recommendation(predictions, courses[KEY]), highlight=False, soft_wrap=True)


def _expand_grouping(text: str, swept: Mapping[str, Sequence[str]], every: Sequence[str]) -> Iterator[str]:
    """The grouping with each combination of values of those swept parameters that it has."""
    from unskew.grouping import get_parameters

    named = {each: spell_grouping(each.partition(":")[0]) for each in every}
    for name in swept:
        if not any(name in get_parameters(each) for each in named.values()):
            valid = sorted({*_SWEPT, *(one for each in named.values() for one in get_parameters(each))})
            raise UsageError(f"--sweep: nothing to simulate has {name!r}; valid: {', '.join(valid)}")
    own = {name: values for name, values in swept.items() if name in get_parameters(named[text])}
    for values in product(*own.values()):
        yield ":".join([text, *(f"{name}={value}" for name, value in zip(own, values, strict=True))])


def _parse_grouping(text: str) -> tuple[str, str, dict[str, Any]]:
    """``NAME:OPTION=VALUE:…`` as (label, name, options)."""
    name, *pairs = text.split(":")
    name, given = spell_grouping(name), [parse_pair(pair, "--groupings") for pair in pairs]
    return ":".join([name, *pairs]), name, parse_parameters(given, [name])[name]
