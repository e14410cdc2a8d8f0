"""`unskew produce`: a dataset into a topic, with progress and a summary."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unskew.deploy.client.connection import Connection
from unskew.deploy.commands.options import BootstrapOption, KafkaConfigOption
from unskew.errors import UsageError

if TYPE_CHECKING:
    from unskew.producers.pace import Pace
    from unskew.producers.partitioning import Partitioner

INTERRUPTED = 130  # what a shell reports of a command that Ctrl-C ended
PARTITIONS = 5


def produce(
    dataset: Annotated[
        str | None, typer.Argument(metavar="DATASET", help="The source type; --list shows them.", show_default=False)
    ] = None,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Read these instead of generating records: files (.gz, .zst, .bz2 too), directories, patterns, or -.",
            show_default=False,
        ),
    ] = None,
    topic: Annotated[
        str | None, typer.Option(help="Topic to publish to; made if it is missing.", show_default=False)
    ] = None,
    records: Annotated[
        int | None, typer.Option(min=0, help="How many at most; default: all there are.", show_default=False)
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Records a second, at most; default: as fast as it goes.", show_default=False)
    ] = None,
    speedup: Annotated[
        float | None,
        typer.Option(help="Send the records at their own times, so many times as fast: 60 for an hour a minute."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only what happened then or later: 2013-11-01T12:30, or seconds since 1970."),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(help="Size of a generated dataset with published sizes, 1 being theirs.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed generates the same records.")] = 0,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", metavar="NAME=VALUE", help="A parameter of the generator, such as z=1.4."),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(min=1, help=f"Partitions of the topic; {PARTITIONS} if it is made.", show_default=False),
    ] = None,
    grouping: Annotated[
        str | None,
        typer.Option(help="Send keyed records, to the partition that this grouping chooses; default: spread evenly."),
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Send the dataset so many times.")] = 1,
    loop: Annotated[bool, typer.Option("--loop", help="Send it again and again, until Ctrl-C.")] = False,
    rejects: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the lines that can't be read to it, as JSON.", show_default=False),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first line that can't be read.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where an interrupted load of the same records to the topic stopped.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Send nothing: show the first messages and the statistics.")
    ] = False,
    bootstrap_servers: BootstrapOption = None,
    kafka_config: KafkaConfigOption = None,
    list_datasets: Annotated[bool, typer.Option("--list", help="Show the datasets, a line each.")] = False,
) -> None:
    """Publish a dataset to a Kafka topic: every record once, spread evenly over the partitions."""
    if list_datasets:
        _list()
        return
    from unskew.producers.load import load, show
    from unskew.producers.readers.rejects import Rejects
    from unskew.producers.source import Asked, source

    asked = Asked(dataset, files or (), records, scale, seed, option or (), None if loop else repeat, since)
    with Rejects(rejects, strict=strict) as rejected:
        chosen = source(asked, rejected)
        if dry_run:
            finished = show(chosen, rejected)
        elif topic is None:
            raise UsageError(f"--topic is missing: unskew produce {chosen.name} --topic NAME")
        else:
            pace = _pace(rate, speedup)
            connection = Connection.of(bootstrap_servers, kafka_config)
            count = _have_topic(connection, topic, partitions)
            chooser = _partitioner(grouping, count, seed)
            finished = load(connection, topic, chosen, rejected, pace=pace, partitioner=chooser, resume=resume)
    if not finished:
        raise typer.Exit(INTERRUPTED)


def _pace(rate: float | None, speedup: float | None) -> "Pace":
    from unskew.producers.pace import Pace, Rate, Replay

    if rate is not None and speedup is not None:
        raise UsageError("--rate and --speedup exclude each other")
    try:
        if speedup is not None:
            return Replay(speedup)
        return Pace() if rate is None else Rate(rate)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _partitioner(grouping: str | None, partitions: int, seed: int) -> "Partitioner | None":
    if grouping is None:
        return None
    from unskew.grouping import standalone
    from unskew.producers.partitioning import ByGrouping

    try:
        return ByGrouping(standalone(grouping, partitions, seed=seed, costs=True))
    except ValueError as error:
        raise UsageError(f"--grouping: {error}") from None


def _have_topic(connection: Connection, topic: str, partitions: int | None) -> int:
    """How many partitions the topic has, which is made if it is missing."""
    from unskew.deploy.client.topics import ensure_topic, partitions_of

    there = partitions_of(connection, topic)
    if there is None or partitions is not None:
        there = partitions or PARTITIONS
        ensure_topic(connection, topic, there)
    return there


def _list() -> None:
    from unskew.producers.readers.columns import Columns
    from unskew.producers.readers.formats import FORMATS
    from unskew.producers.registry import DATASETS, create

    rows = [(name, "yes" if name in FORMATS else "", create(name).summary) for name in DATASETS]
    rows.append((Columns.name, "only", "any column of Parquet, CSV or JSON lines: -o column=NAME"))
    width = max(len(name) for name, _, _ in rows)
    for name, files, summary in [("dataset", "files", "what is generated"), *rows]:
        print(f"{name:{width}}  {files:5}  {summary}")
