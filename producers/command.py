"""`unskew produce`: a dataset into a topic, with progress and a summary."""

from typing import TYPE_CHECKING, Annotated

import typer

from deploy.connection import BootstrapOption, Connection, KafkaConfigOption
from deploy.errors import UsageError

if TYPE_CHECKING:
    from producers.dataset import Dataset
    from producers.pace import Pace

INTERRUPTED = 130  # what a shell reports of a command that Ctrl-C ended
PARTITIONS = 5


def produce(
    dataset: Annotated[
        str | None, typer.Argument(metavar="[DATASET]", help="The source type; --list shows them.", show_default=False)
    ] = None,
    topic: Annotated[
        str | None, typer.Option(help="Topic to publish to; made if it is missing.", show_default=False)
    ] = None,
    records: Annotated[
        int | None, typer.Option(min=0, help="How many; default: the dataset's own number.", show_default=False)
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Records a second, at most; default: as fast as it goes.", show_default=False)
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(help="Size of a dataset with published sizes, 1 being theirs.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same records.")] = 0,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", metavar="NAME=VALUE", help="A parameter of the dataset's own, such as z=1.4."),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(min=1, help=f"Partitions of the topic; {PARTITIONS} if it is made.", show_default=False),
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Send the dataset so many times.")] = 1,
    loop: Annotated[bool, typer.Option("--loop", help="Send it again and again, until Ctrl-C.")] = False,
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
    options = [*(option or []), *([f"scale={scale}"] if scale is not None else [])]
    source = _source(dataset, records, seed, options, None if loop else repeat)
    if dry_run:
        _dry_run(source)
        return
    pace = _pace(rate)
    if topic is None:
        raise UsageError(f"--topic is missing: unskew produce {source.name} --topic NAME")
    connection = Connection.of(bootstrap_servers, kafka_config)
    _have_topic(connection, topic, partitions)
    if not _load(connection, topic, source, pace):
        raise typer.Exit(INTERRUPTED)


def _source(dataset: str | None, records: int | None, seed: int, options: list[str], times: int | None) -> "Dataset":
    from producers.registry import DATASETS, create, parsed
    from producers.repeat import Repeated

    if dataset is None:
        raise UsageError(f"which dataset? valid: {', '.join(DATASETS)}")
    try:
        source = create(dataset, records=records, seed=seed, **parsed(dataset, options))
        return source if times == 1 else Repeated(source, times)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _have_topic(connection: Connection, topic: str, partitions: int | None) -> None:
    from deploy.topics import ensure_topic, partitions_of

    if partitions is not None or partitions_of(connection, topic) is None:
        ensure_topic(connection, topic, partitions or PARTITIONS)


def _pace(rate: float | None) -> "Pace":
    from producers.pace import Pace, Rate

    try:
        return Pace() if rate is None else Rate(rate)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _load(connection: Connection, topic: str, source: "Dataset", pace: "Pace") -> bool:
    """Publish with progress and a summary; False if the user stopped it."""
    from rich.console import Console

    from producers.interrupt import stop_on_signal
    from producers.progress import LoadProgress
    from producers.publish import publish
    from producers.summary import DeliveryFault

    output = Console()
    with stop_on_signal() as stopped, LoadProgress(source.name, source.records, Console(stderr=True)) as progress:
        try:
            summary = publish(connection, topic, source, pace=pace, progress=progress.update, stopped=stopped)
        except DeliveryFault as fault:
            output.print(fault.summary.table())
            raise
    output.print(summary.table())
    return not summary.interrupted


def _dry_run(source: "Dataset") -> None:
    from rich.console import Console

    from producers.dry_run import measure, statistics_table
    from producers.interrupt import stop_on_signal
    from producers.progress import LoadProgress

    output = Console()
    with stop_on_signal() as stopped, LoadProgress(source.name, source.records, Console(stderr=True)) as progress:
        found = measure(source, progress=progress.update, stopped=stopped)
    for message in found.first:
        print(message.decode(errors="replace"))
    output.print(statistics_table(source, found))
    if stopped():
        raise typer.Exit(INTERRUPTED)


def _list() -> None:
    from rich.console import Console
    from rich.table import Table

    from producers.registry import DATASETS, create

    table = Table("dataset", "what it is")
    for name in DATASETS:
        table.add_row(name, create(name).summary)
    Console().print(table)
