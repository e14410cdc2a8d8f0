"""`unskew produce` publishes a dataset to a topic. `unskew skew` shows how skewed the datasets are.

The imports inside functions wait until a command runs: `unskew --help` imports this module.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unskew.apps.cli.field_options import options_from
from unskew.apps.cli.option_groups import KafkaOptions
from unskew.errors import UsageError
from unskew.shell import PICTURES, interruption_exit_code

if TYPE_CHECKING:
    from unskew.producers.datasets.registry import DatasetArguments

PARTITIONS = 5  # of a topic that is made
_PAGE = 120  # columns, where the output isn't a terminal


@dataclass(frozen=True)
class ProduceOptions:
    """Which records are sent, to which topic, and how."""

    dataset: Annotated[str | None, typer.Argument(metavar="DATASET", help="The source type; --list shows them.")] = None
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Read these instead of generating records: files (.gz, .zst, .bz2 too), directories, patterns, -.",
        ),
    ] = None
    topic: Annotated[str | None, typer.Option(help="Topic to publish to; created if missing.")] = None
    records: Annotated[int | None, typer.Option(min=0, help="Maximum of records (default: all).")] = None
    rate: Annotated[float | None, typer.Option(help="Most records a second (default: as fast as possible).")] = None
    speedup: Annotated[
        float | None,
        typer.Option(help="Send records at their own times, faster by this factor; 60: an hour takes a minute."),
    ] = None
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Send only records of this time or later: 2013-11-01T12:30, or seconds since 1970."
        ),
    ] = None
    scale: Annotated[
        float | None, typer.Option(help="Size of a generated dataset, as a multiple of the published size.")
    ] = None
    seed: Annotated[int, typer.Option(min=0, help="The same seed generates the same records.")] = 0
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-o",
            metavar="NAME=VALUE",
            help="A parameter of the generator, such as z=1.4, or of COLUMN, such as column=user.",
        ),
    ] = None
    partitions: Annotated[
        int | None, typer.Option(min=1, help=f"Number of the topic's partitions (default: {PARTITIONS} if it is made).")
    ] = None
    grouping: Annotated[
        str | None,
        typer.Option(
            help="Send records with keys, to partitions that this grouping chooses (default: an even spread)."
        ),
    ] = None
    repeat: Annotated[int, typer.Option(min=1, help="How many times to send the dataset.")] = 1
    loop: Annotated[bool, typer.Option("--loop", help="Send the dataset again and again, until Ctrl-C.")] = False
    rejects: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File for the lines that can't be read, as JSON.")
    ] = None
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first line that can't be read.")] = False
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume an interrupted upload of the same records to the topic.")
    ] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Send nothing, but show the first messages and the statistics.")
    ] = False

    def arguments(self) -> "DatasetArguments":
        """The arguments that choose the records."""
        from unskew.producers.datasets.registry import DatasetArguments

        files, options, times = self.files or (), self.option or (), None if self.loop else self.repeat
        return DatasetArguments(self.dataset, files, self.records, self.scale, self.seed, options, times, self.since)


@options_from(options=ProduceOptions, kafka=KafkaOptions)
def produce(
    options: ProduceOptions,
    kafka: KafkaOptions,
    list_datasets: Annotated[bool, typer.Option("--list", help="List the datasets.")] = False,
) -> None:
    """Publish a dataset to a Kafka topic: every record once, spread evenly over the partitions."""
    from unskew.producers.datasets.registry import format_dataset_table, select_dataset

    if list_datasets:
        print(format_dataset_table())
        return
    from unskew.producers.readers.rejected_records import RejectLog
    from unskew.producers.terminal import choose_pace, ensure_partitions, make_partitioner, show_dataset, upload_dataset

    with RejectLog(options.rejects, strict=options.strict) as rejected:
        chosen = select_dataset(options.arguments(), rejected)
        if options.dry_run:
            finished = show_dataset(chosen, rejected)
        elif options.topic is None:
            raise UsageError(f"--topic is missing: unskew produce {chosen.name} --topic NAME")
        else:
            pace, connection, topic = choose_pace(options.rate, options.speedup), kafka.connection(), options.topic
            count = ensure_partitions(connection, topic, options.partitions, PARTITIONS)
            chooser, resume = make_partitioner(options.grouping, count, options.seed), options.resume
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
    """Show the generated datasets' statistics beside the published ones, and optionally plot their skew."""
    from rich.console import Console

    from unskew.producers.datasets.registry import KINDS, create_at_scale
    from unskew.producers.skew import compare_datasets, draw_curves

    if plot and plot.suffix.lower() not in PICTURES:
        raise UsageError(f"--plot {plot} has no ending of a picture; valid: {', '.join(PICTURES)}")
    try:  # one after the other: each has large tables
        table, curves = compare_datasets(create_at_scale(name, scale, seed) for name in datasets or KINDS)
    except ValueError as error:
        raise UsageError(f"{error} (of a topic of your own: unskew simulate kafka:TOPIC:FIELD)") from None
    console = Console()
    (console if console.is_terminal else Console(width=_PAGE)).print(table)
    if plot:
        draw_curves(curves, plot)
        print(f"picture: {plot}")
