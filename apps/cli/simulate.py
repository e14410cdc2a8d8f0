"""`unskew simulate`: how balanced a stream would be with each grouping, and the cost."""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import product
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from unskew.apps.cli.field_options import options_from
from unskew.apps.cli.option_groups import KafkaOptions, OperatorOptions, SampledOperatorOptions
from unskew.apps.cli.simulation.options import (
    BatchOptions,
    OutputOptions,
    SimulationOptions,
    refuse_for_table,
    refuse_for_times,
    refuse_other_options,
)
from unskew.errors import UsageError

if TYPE_CHECKING:
    from rich.table import Table

    from unskew.apps.cli.simulation.batch_times import BatchTiming
    from unskew.apps.cli.simulation.input_stream import StreamSpec
    from unskew.apps.cli.simulation.simulation import Contestant, Simulation
    from unskew.apps.cli.simulation.sweep import SweptFigures
    from unskew.grouping.keys import Keys
    from unskew.grouping.simulator import SimulationOutcome


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
    if options.join is not None or options.write:
        from unskew.apps.cli.simulation import join_report, write_report
        from unskew.apps.cli.simulation.input_stream import StreamSpec

        refuse_other_options("write" if options.join is None else "join", (batches, work, options, shown))
        make = partial(StreamSpec, tuples=options.tuples, seed=options.seed, connect=kafka.connection, timed=False)
        stream, counts = make(options.streams[0]), options.worker_counts
        if options.join is None:
            write_report.print_writes(stream, counts, as_json=shown.as_json)
        else:
            join_report.print_join([stream, make(options.join)], counts, batches.batch, as_json=shown.as_json)
        return
    asked = batches.is_asked(work)
    swept = options.is_swept or shown.show is not None
    if swept and asked:
        raise UsageError("--sweep, --show and several streams show no times; valid: without --cost and --work")
    if swept:
        refuse_for_table((options, shown))
    if asked:
        refuse_for_times((options, shown))

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
        timing = _make_timing(given, batches, work, settings)
        _print_times(console, timing, contestants, counts, as_json=shown.as_json)
        _print_partitions(console, None if shown.as_json else partitions)
        given.rejects.show(Console(stderr=True) if shown.as_json else console)
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
    from unskew.apps.cli.simulation.simulation import Simulation
    from unskew.grouping import encode_keys

    arguments, read = options.arguments(), given.read_some(recorded=options.recorded)
    arguments["settings"]["batch"] = batches.batch
    keys, times = encode_keys(read.keys), read.times if options.recorded else None
    return Simulation(keys, times, costs=batches.costs, sources=sources, **arguments)


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
    console: Console,
    timing: "BatchTiming",
    contestants: "Sequence[Contestant]",
    counts: Sequence[int],
    *,
    as_json: bool,
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
        if as_json:
            print(json.dumps(tables.describe_times(predictions, courses[KEY], timing.sources)))
            continue
        _print_whole(console, tables.make_time_table(predictions, courses[KEY], timing.sources))
        console.print(describe_recommendation(predictions, courses[KEY]), highlight=False, soft_wrap=True)
