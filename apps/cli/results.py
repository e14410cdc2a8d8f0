"""`unskew results`: the results of a topology, read from its topics."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from unskew.apps.cli.option_groups import BootstrapOption, KafkaConfigOption
from unskew.errors import UsageError
from unskew.kafka.connection import Connection

if TYPE_CHECKING:
    from rich.console import RenderableType

    from unskew.apps.cli.result_topics.layouts import Windows
    from unskew.apps.cli.result_topics.reader import Record, RecordSelection
    from unskew.kafka.reader import TopicReader

_PAUSE = 0.5  # s; after so long without a record, the records that came are taken for complete


def results(
    topic: Annotated[
        str | None, typer.Argument(help="A result topic. Without it, all result topics are listed.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show new results as they come, until Ctrl-C.")
    ] = False,
    window: Annotated[
        str,
        typer.Option(
            metavar="latest|all|START", help="The latest window, all windows, or those whose start begins with START."
        ),
    ] = "latest",
    top: Annotated[int, typer.Option(min=0, help="Most keys of a window, or most messages, to show; 0: all.")] = 20,
    json: Annotated[bool, typer.Option("--json", help="Print the raw records, one per line, with all keys.")] = False,
    bootstrap_servers: BootstrapOption = None,
    kafka_config: KafkaConfigOption = None,
) -> None:
    """Show the results of a topology as a table: counts, balance, or rejected messages.

    A window that was published again after a failure is shown once.

    Example: unskew results country-skew-80-s5-w10-dkg-distribution --follow
    """
    # confluent_kafka: the commands' help needn't wait for it.
    from unskew.apps.cli.result_topics.reader import (
        LATEST,
        Record,
        RecordSelection,
        count_records,
        get_kind,
        require_result_topic,
    )
    from unskew.kafka.reader import TopicReader

    connection = Connection.of(bootstrap_servers, kafka_config)
    if topic is None:
        _print_topics(
            connection, [(name, get_kind(name) or "", records) for name, records in count_records(connection).items()]
        )
        return
    kind = require_result_topic(connection, topic)
    windowed = kind != "rejected"
    if not windowed and window != LATEST:
        raise UsageError(f"--window is {window!r}, but rejected messages belong to no window: leave it out")
    selection = RecordSelection(window, windowed=windowed)
    try:
        with TopicReader(connection, topic) as reader:
            selection.add(map(Record.of, reader.to_end()))
            if not follow:
                selection.require_known()
            if json:
                _print_records(selection, reader if follow else None)
            else:
                _print_tables(selection, reader if follow else None, topic, kind, top)
    except KeyboardInterrupt:
        if not follow:
            raise


def _read_new(reader: "TopicReader") -> "list[Record]":
    """The records that have come since the last call."""
    from unskew.apps.cli.result_topics.reader import Record

    return [*map(Record.of, reader.new(_PAUSE))]


def _print_topics(connection: Connection, found: Sequence[tuple[str, str, int]]) -> None:
    """Print each result topic's name, kind and number of records."""
    if not found:
        print(f"no results at {connection.bootstrap_servers} yet: `unskew topology` makes them")
        return
    table = Table("topic", "kind")
    table.columns[0].overflow = "fold"
    table.add_column("records", justify="right")
    for topic, kind, records in found:
        table.add_row(topic, kind, f"{records:,}")
    console = Console()
    console.print(table)
    console.print("Read one: unskew results TOPIC", highlight=False)


def _print_records(selection: "RecordSelection", reader: "TopicReader | None") -> None:
    """Print the selected records as they are; if there is a reader, go on with the records that it gets."""
    write = sys.stdout.buffer.write
    for records in selection.windows.values():
        for record in records.values():
            write(record.value + b"\n")
    sys.stdout.flush()
    while reader is not None:
        for record in selection.add(_read_new(reader)):
            write(record.value + b"\n")
        sys.stdout.flush()


def _print_tables(selection: "RecordSelection", reader: "TopicReader | None", topic: str, kind: str, top: int) -> None:
    """Print the selection as tables; if there is a reader, go on with the records that it gets."""
    # numba, by which shares are measured: the commands' help needn't wait for it.
    from unskew.apps.cli.result_topics.layouts import format_records

    def render(windows: "Windows") -> "RenderableType":
        return format_records(kind, windows, top) if windows else Text(f"no results yet in {topic}")

    console = Console()
    if reader is not None and console.is_terminal and selection.only_latest:
        with Live(render(selection.windows), console=console, auto_refresh=False, vertical_overflow="crop") as live:
            while True:
                if selection.add(_read_new(reader)):
                    live.update(render(selection.windows), refresh=True)
    console.print(render(selection.windows))
    changed: set[str] = set()
    while reader is not None:
        # A window is printed once it seems complete.
        new = {selection.window_of(record) for record in selection.add(_read_new(reader))}
        if changed and not new:
            console.print(render({window: selection.windows[window] for window in changed & selection.windows.keys()}))
            changed.clear()
        changed |= new
