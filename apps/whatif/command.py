"""`unskew simulate`: how balanced a stream would be with each grouping, and at what price."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from unskew.apps.commandline import options
from unskew.apps.topology.settings import numbers, scheme
from unskew.deploy.commands.options import BootstrapOption, KafkaConfigOption
from unskew.deploy.kafka.connection import Connection
from unskew.errors import UsageError

if TYPE_CHECKING:
    from unskew.grouping.simulator import Outcome

TIME = "Timing options"


def simulate(
    stream: Annotated[
        str,
        typer.Argument(
            help="A generator such as zipf:z=1.2,k=100000, a dataset such as COUNTRY_SKEW_R80, "
            "FILE.parquet:COLUMN, FILE.csv:COLUMN, counts:FILE.csv (key,count), kafka:TOPIC or kafka:TOPIC:FIELD."
        ),
    ] = "zipf:z=1.2,k=100000",
    groupings: Annotated[
        str, typer.Option(metavar="NAME,…", help="Groupings; NAME:PARAMETER=VALUE:… sets parameters.")
    ] = "BOUNDED_LOAD,PARTIAL_KEY,D_CHOICES,W_CHOICES,DYNAMIC_KEY,KEY,SHUFFLE",
    workers: Annotated[
        str, typer.Option(metavar="W,…", help="Number of workers W; several numbers give a curve.")
    ] = "10",
    sources: Annotated[int, typer.Option(min=1, help="Number of sources S.")] = 5,
    tuples: Annotated[
        int, typer.Option(min=1, help="Most tuples to simulate; a file or topic may have fewer.")
    ] = 1_000_000,
    split: Annotated[str, typer.Option(help="How tuples are spread over the sources: 'even', or by 'key'.")] = "even",
    cost: Annotated[
        str,
        typer.Option(metavar="MS,…", help="Cost of a tuple (ms); several costs, or 1..64: one for each class of keys."),
    ] = "1",
    factors: Annotated[
        str,
        typer.Option(metavar="F,…", help="Multiples of that cost that each worker takes; repeated over the workers."),
    ] = "1",
    factors_end: Annotated[
        str | None,
        typer.Option(
            metavar="F,…", help="The factors at the end, to which the workers' speeds drift.", show_default="no drift"
        ),
    ] = None,
    load: Annotated[
        float, typer.Option(help="Share of the workers' capacity that the stream needs.", rich_help_panel=TIME)
    ] = 0.8,
    poisson: Annotated[
        bool, typer.Option(help="Draw the times between arrivals at random.", rich_help_panel=TIME)
    ] = False,
    recorded: Annotated[
        bool,
        typer.Option(
            help="Use the recorded times of arrival: a column 'time', or Kafka's timestamps.", rich_help_panel=TIME
        ),
    ] = False,
    window: Annotated[
        float | None,
        typer.Option(
            help="How often partial results go to the aggregator (s).", rich_help_panel=TIME, show_default="end"
        ),
    ] = None,
    feedback_interval: Annotated[float, typer.Option(help="Time between reports (s).", rich_help_panel=TIME)] = 1.0,
    feedback_delay: Annotated[
        float, typer.Option(help="Time until a plan takes effect (s).", rich_help_panel=TIME)
    ] = 0.0,
    feedback_transfer: Annotated[
        float,
        typer.Option(
            help="Time that a move of a state takes both workers, for each tuple in it (ms).", rich_help_panel=TIME
        ),
    ] = 0.0,
    samples: Annotated[int, typer.Option(min=1, help="Number of points of each series.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the stream and the hash functions.")] = 0,
    details: Annotated[
        bool, typer.Option("--details", help="Show imbalance, queues, times and messages of each grouping too.")
    ] = False,
    output: Annotated[Path | None, typer.Option(help="Directory for series.parquet, figures.csv and pictures.")] = None,
    bootstrap_servers: BootstrapOption = None,
    kafka_config: KafkaConfigOption = None,
) -> None:
    """Simulate groupings on a stream: what each worker would get, and how many states this would need.

    Routes the stream with each grouping, and prints a row for each, the cheapest first.
    The row above them is the bound by which costs are measured.
    --details adds the queues and times of simulated workers. --output saves all measures over time.

    Example: unskew simulate kafka:events:user --workers 50 --sources 16
    """
    chosen = [_scheme(text.strip()) for text in groupings.split(",") if text.strip()]
    counts = [int(number) for number in numbers("--workers", workers, least=1, whole=True)]
    if not chosen:
        raise UsageError("--groupings is empty; valid: names separated by commas, such as KEY,PARTIAL_KEY")

    # pyarrow and numba: the commands' help needn't wait for them.
    from unskew.apps.whatif import simulation, tables
    from unskew.apps.whatif import stream as source

    contestants = [simulation.Contestant(*each) for each in chosen]
    try:
        feedback = simulation.Feedback(1000 * feedback_interval, 1000 * feedback_delay, feedback_transfer)
        read = source.read(stream, tuples, seed, lambda: Connection.of(bootstrap_servers, kafka_config))
        if not len(read.keys):
            raise UsageError(f"stream {stream!r} has no tuples")
        if recorded and read.times is None:
            raise UsageError(f"--recorded: stream {stream!r} says no times; a column 'time' (ms) or a Kafka topic does")
        simulated = simulation.Simulation(
            simulation.encode(read.keys),
            read.times if recorded else None,
            costs=numbers("--cost", cost),
            factors=numbers("--factors", factors),
            factors_end=None if factors_end is None else numbers("--factors-end", factors_end),
            load=load,
            poisson=poisson,
            seed=seed,
            sources=sources,
            feedback=feedback,
            settings={"split": split, "samples": samples, "window": window and 1000 * window},
        )
        outcomes: dict[tuple[str, int], Outcome] = {}
        console = Console()
        for count in counts:
            found = simulated.outcomes(contestants, count)
            outcomes |= {(label, count): outcome for label, outcome in found.items()}
            console.print(tables.table(found, simulated.keys))
            if details:
                console.print(tables.details(found, console.width))
        if read.partitions is not None:
            console.print(tables.partitions(read.partitions), highlight=False, soft_wrap=True)
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from None
    if output is not None:
        for file in tables.save(outcomes, output, stream):
            console.print(f"wrote {file}")


def _scheme(text: str) -> tuple[str, str, dict[str, Any]]:
    """``NAME:OPTION=VALUE:…`` as (label, name, options)."""
    name, *pairs = text.split(":")
    name = scheme(name)
    return ":".join([name, *pairs]), name, options.GroupingOptions(grouping_option=pairs).of([name])[name]
