"""`unskew produce` publishes a dataset to a topic. `unskew skew` shows how skewed the datasets are.

The imports inside functions wait until a command runs: `unskew --help` imports this module.
"""

from pathlib import Path
from typing import Annotated

import typer

from unskew.apps.cli.connection_options import BootstrapOption, KafkaConfigOption
from unskew.errors import UsageError
from unskew.kafka.connection import Connection
from unskew.shell import interruption_exit_code

PARTITIONS = 5  # of a topic that is made
_PAGE = 120  # columns, where the output isn't a terminal
_PICTURES = (".png", ".svg", ".pdf")
#: The datasets that `unskew skew` compares by default: one of the country streams stands for all.
COMPARED = [
    "COUNTRY_SKEW_R80",
    "TWITTER_TICKER",
    "TWITTER_ELECTION",
    "WIKIPEDIA_PAGEVIEWS",
    "WIKIPEDIA_PAGEVIEWS_BY_LANG",
    "WIKIPEDIA_CLICKSTREAM",
    "NEXMARK",
    "ZIPF",
    "DRIFTING_ZIPF",
    "LN1",
    "LN2",
    "POSG_UNIFORM",
    "POSG_ZIPF",
]


def produce(
    dataset: Annotated[
        str | None, typer.Argument(metavar="DATASET", help="The source type; --list shows them.", show_default=False)
    ] = None,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Read these instead of generating records: files (.gz, .zst, .bz2 too), directories, patterns, -.",
            show_default=False,
        ),
    ] = None,
    topic: Annotated[
        str | None, typer.Option(help="Topic to publish to. It is made if it is missing.", show_default=False)
    ] = None,
    records: Annotated[
        int | None, typer.Option(min=0, help="Most records to send (default: all).", show_default=False)
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Most records a second (default: as fast as possible).", show_default=False)
    ] = None,
    speedup: Annotated[
        float | None,
        typer.Option(help="Send records at their own times, faster by this factor; 60: an hour takes a minute."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Send only records of this time or later: 2013-11-01T12:30, or seconds since 1970."
        ),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(help="Size of a generated dataset, as a multiple of the published size.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed generates the same records.")] = 0,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-o",
            metavar="NAME=VALUE",
            help="A parameter of the generator, such as z=1.4, or of COLUMN, such as column=user.",
        ),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            min=1, help=f"Number of the topic's partitions (default: {PARTITIONS} if it is made).", show_default=False
        ),
    ] = None,
    grouping: Annotated[
        str | None,
        typer.Option(
            help="Send records with keys, to partitions that this grouping chooses (default: an even spread)."
        ),
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="How many times to send the dataset.")] = 1,
    loop: Annotated[bool, typer.Option("--loop", help="Send the dataset again and again, until Ctrl-C.")] = False,
    rejects: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File for the lines that can't be read, as JSON.", show_default=False),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first line that can't be read.")] = False,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Resume an interrupted upload of the same records to the topic."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Send nothing, but show the first messages and the statistics.")
    ] = False,
    bootstrap_servers: BootstrapOption = None,
    kafka_config: KafkaConfigOption = None,
    list_datasets: Annotated[bool, typer.Option("--list", help="Show the datasets, a line each.")] = False,
) -> None:
    """Publish a dataset to a Kafka topic: every record once, spread evenly over the partitions."""
    from unskew.producers.datasets.registry import DatasetArguments, format_dataset_table, select_dataset

    if list_datasets:
        print(format_dataset_table())
        return
    from unskew.producers.readers.rejected_records import RejectLog
    from unskew.producers.terminal import choose_pace, ensure_partitions, make_partitioner, show_dataset, upload_dataset

    arguments = DatasetArguments(
        dataset, files or (), records, scale, seed, option or (), None if loop else repeat, since
    )
    with RejectLog(rejects, strict=strict) as rejected:
        chosen = select_dataset(arguments, rejected)
        if dry_run:
            finished = show_dataset(chosen, rejected)
        elif topic is None:
            raise UsageError(f"--topic is missing: unskew produce {chosen.name} --topic NAME")
        else:
            pace = choose_pace(rate, speedup)
            connection = Connection.of(bootstrap_servers, kafka_config)
            count = ensure_partitions(connection, topic, partitions, PARTITIONS)
            chooser = make_partitioner(grouping, count, seed)
            finished = upload_dataset(connection, topic, chosen, rejected, pace=pace, placement=chooser, resume=resume)
    if not finished:
        raise typer.Exit(interruption_exit_code())


def skew(
    datasets: Annotated[
        list[str] | None, typer.Argument(metavar="DATASET", help="Datasets to show (default: one of each kind).")
    ] = None,
    scale: Annotated[float, typer.Option(help="Size of the datasets, as a multiple of their published sizes.")] = 0.1,
    seed: Annotated[int, typer.Option(min=0, help="The same seed generates the same records.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File for a picture of frequency against rank: PNG, SVG or PDF.")
    ] = None,
) -> None:
    """Show the generated datasets' statistics beside the published ones, and optionally draw how skewed they are."""
    from rich.console import Console

    from unskew.producers.datasets.registry import create_at_scale
    from unskew.producers.skew import compare_datasets, draw_curves

    if plot and plot.suffix.lower() not in _PICTURES:
        raise UsageError(f"--plot {plot} has no ending of a picture; valid: {', '.join(_PICTURES)}")
    try:  # one after the other: each has large tables
        table, curves = compare_datasets(create_at_scale(name, scale, seed) for name in datasets or COMPARED)
    except ValueError as error:
        raise UsageError(f"{error} (of a topic of your own: unskew simulate kafka:TOPIC:FIELD)") from None
    console = Console()
    (console if console.is_terminal else Console(width=_PAGE)).print(table)
    if plot:
        draw_curves(curves, plot)
        print(f"picture: {plot}")
