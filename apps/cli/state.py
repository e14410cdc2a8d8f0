"""`unskew state`: show a keyed operator's states at workers and mergers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from unskew.apps.cli.option_groups import Conf
from unskew.apps.worker.result_messages import format_window
from unskew.directories import data_directory
from unskew.errors import UsageError
from unskew.shell import escape_controls, parse_pairs

if TYPE_CHECKING:
    from unskew.apps.worker.stateful.state_reader import States


def state(
    run: Annotated[
        str, typer.Argument(help="The run's name, with which its topics begin, or its checkpoint's address.")
    ],
    key: Annotated[str | None, typer.Option(help="Show this key's states in full.")] = None,
    worker: Annotated[int | None, typer.Option(min=0, help="Show only the states at this worker.")] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of keys to show: those with the largest states.")] = 10,
    conf: Conf = None,
) -> None:
    """Show the states of a run's keyed operator: keys and bytes of each worker and the largest states, or one key's
    states.

    Reads the run's checkpoint as of its last batch. The run may still be going.

    Example: unskew state country-skew-80-s5-w10-dc --key Turkey
    """
    # pyspark and numba: the commands' help needn't wait for them.
    from unskew.apps.checkpoint.location import configure_location
    from unskew.apps.driver.session import get_log_file, keep_session, start_spark
    from unskew.apps.worker.stateful.state_reader import States

    own = data_directory() / "checkpoints" / run
    address = run if "://" in run or not own.exists() else str(own)
    if "://" not in address and not Path(address).exists():
        valid = sorted(path.name for path in (data_directory() / "checkpoints").glob("*")) or ["none yet"]
        raise UsageError(f"there is no run {run!r}; valid: {', '.join(valid)}, or the path of a checkpoint")
    given = parse_pairs("--conf", conf or [])
    location = configure_location(address, given)
    spark = start_spark(f"state of {run}", "local[2]", 2, given, location)
    with keep_session(spark, get_log_file()):
        states = States(spark, location)
        if worker is not None and worker >= states.workers:
            raise UsageError(f"worker is {worker}; valid: 0 to {states.workers - 1}")
        if key is not None:
            _show_key(states, key, worker)
        else:
            _show_all(states, worker, top)


def _show_key(states: "States", key: str, worker: int | None) -> None:
    found = [row for row in states.rows(full=True, key=key).collect() if worker is None or row["number"] == worker]
    if not found:
        raise UsageError(f"no state of the key {key!r}" + (f" at worker {worker}" if worker is not None else ""))
    for row in sorted(found, key=lambda row: (row["window"], row["operator"], row["number"])):
        window = f", window {format_window(row['window'])}" if row["window"] else ""
        print(
            f"{row['operator']} {row['number']}{window}: {row['bytes']:,} bytes, last tuple "
            f"{format_window(row['last'])}"
        )
        print(f"  {row['state']}")


def _show_all(states: "States", worker: int | None, top: int) -> None:
    from pyspark.sql import functions as F

    console = Console()
    table = Table(title=f"states of {states.work}", title_justify="left")
    table.add_column("at")
    for heading in ("keys", "bytes", "buckets", "windows"):
        table.add_column(heading, justify="right")
    for (operator, number), directory in sorted(states.directories.items()):
        if worker is None or number == worker:
            indexes = directory.indexes.values()
            keys = sum(int(index.keys.sum()) for index in indexes)
            size = sum(int(index.size.sum()) for index in indexes)
            numbers = [keys, size, sum(len(index) for index in indexes), len(indexes)]
            table.add_row(f"{operator} {number}", *(f"{n:,}" for n in numbers))
    console.print(table)
    rows = states.rows()
    if worker is not None:
        rows = rows.where(F.col("number") == worker)
    at = F.concat_ws(" ", F.array_sort(F.collect_set(F.concat(F.substring("operator", 1, 1), F.col("number")))))
    largest = rows.groupBy("key").agg(F.sum("bytes").alias("bytes"), at.alias("at"), F.max("last").alias("last"))
    table = Table("key", title=f"the {top} largest (w: at a worker, m: at a merger)", title_justify="left")
    for heading in ("bytes", "at", "last tuple"):
        table.add_column(heading, justify="right")
    for row in largest.orderBy(F.desc("bytes"), "key").limit(top).collect():
        table.add_row(Text(escape_controls(row["key"])), f"{row['bytes']:,}", row["at"], format_window(row["last"]))
    console.print(table)
