"""`unskew simulate`: how balanced a stream would be with each grouping, and at what price."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from unskew.apps.commandline import options
from unskew.apps.topology.settings import numbers
from unskew.deploy.client.connection import Connection
from unskew.deploy.commands.options import BootstrapOption, KafkaConfigOption
from unskew.errors import UsageError

if TYPE_CHECKING:
    from unskew.grouping.simulator import Outcome

TIME = "Of time"


def simulate(
    stream: Annotated[
        str,
        typer.Argument(
            help="zipf:z=1.2,k=100000 or another generator, a dataset such as COUNTRY_SKEW_R80, "
            "FILE.parquet:COLUMN, FILE.csv:COLUMN, counts:FILE.csv (key,count), kafka:TOPIC or kafka:TOPIC:FIELD."
        ),
    ] = "zipf:z=1.2,k=100000",
    groupings: Annotated[
        str, typer.Option(metavar="NAME,…", help="Which; NAME:OPTION=VALUE:… for its options.")
    ] = "BOUNDED_LOAD,PARTIAL_KEY,D_CHOICES,W_CHOICES,DYNAMIC_KEY,KEY,SHUFFLE",
    workers: Annotated[str, typer.Option(metavar="W,…", help="Workers; several numbers for a curve.")] = "10",
    sources: Annotated[int, typer.Option(min=1, help="Sources S.")] = 5,
    tuples: Annotated[int, typer.Option(min=1, help="How many; at most what a file or topic holds.")] = 1_000_000,
    split: Annotated[str, typer.Option(help="How tuples come to the sources: 'even' or by 'key'.")] = "even",
    cost: Annotated[
        str, typer.Option(metavar="MS,…", help="Cost of a tuple (ms); several, or 1..64: by class of the key.")
    ] = "1",
    factors: Annotated[
        str, typer.Option(metavar="F,…", help="How many times that each worker takes; repeated over the workers.")
    ] = "1",
    factors_end: Annotated[
        str | None, typer.Option(metavar="F,…", help="The same at the end: speeds drift.", show_default="no drift")
    ] = None,
    load: Annotated[
        float, typer.Option(help="Share of the workers' capacity that the stream needs.", rich_help_panel=TIME)
    ] = 0.8,
    poisson: Annotated[bool, typer.Option(help="Draw the times between arrivals.", rich_help_panel=TIME)] = False,
    recorded: Annotated[
        bool, typer.Option(help="Arrivals as recorded (a column 'time', Kafka's timestamps).", rich_help_panel=TIME)
    ] = False,
    window: Annotated[
        float | None,
        typer.Option(
            help="Partial results go to the aggregator every … (s).", rich_help_panel=TIME, show_default="end"
        ),
    ] = None,
    feedback_interval: Annotated[float, typer.Option(help="Between reports (s).", rich_help_panel=TIME)] = 1.0,
    feedback_delay: Annotated[float, typer.Option(help="Until a plan takes effect (s).", rich_help_panel=TIME)] = 0.0,
    feedback_transfer: Annotated[
        float,
        typer.Option(help="Time of both workers for each tuple in a state that moves (ms).", rich_help_panel=TIME),
    ] = 0.0,
    samples: Annotated[int, typer.Option(min=1, help="Points of the series.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Of the stream and the hash functions.")] = 0,
    details: Annotated[
        bool, typer.Option("--details", help="Also imbalance, queues, times, messages of each.")
    ] = False,
    output: Annotated[Path | None, typer.Option(help="Directory for series.parquet, figures.csv and pictures.")] = None,
    bootstrap_servers: BootstrapOption = None,
    kafka_config: KafkaConfigOption = None,
) -> None:
    """Say which grouping: what each worker would get of a stream, and what that would cost in state.

    Routes the stream with each grouping, and prints them by cost, below the bound of what any can do. With --details
    simulated workers' queues and times too; with --output how they came about over time.

    Example: unskew simulate kafka:events:user --workers 50 --sources 16
    """
    chosen = [scheme for text in groupings.split(",") if text.strip() for scheme in [_scheme(text.strip())]]
    counts = [int(number) for number in numbers("--workers", workers, least=1, whole=True)]
    if not chosen:
        raise UsageError("--groupings is empty; valid: names separated by commas, such as KEY,PARTIAL_KEY")

    # pyarrow and numba: the commands' help needn't wait for them.
    from unskew.apps.whatif import simulation, tables
    from unskew.apps.whatif import stream as source

    contestants = [simulation.Contestant(*scheme) for scheme in chosen]
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
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from None
    if output is not None:
        for file in tables.save(outcomes, output, stream):
            console.print(f"wrote {file}")


def _scheme(text: str) -> tuple[str, str, dict[str, Any]]:
    """``NAME:OPTION=VALUE:…`` as (label, name, options)."""
    name, *pairs = text.split(":")
    scheme = options.scheme(name)
    return ":".join([scheme, *pairs]), scheme, options.GroupingOptions(grouping_option=pairs).of([scheme])[scheme]
