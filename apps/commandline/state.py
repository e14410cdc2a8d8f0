"""`unskew state`: what the workers of a run with a keyed work hold."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from unskew.apps.commandline.options import Conf, pairs
from unskew.deploy.home import home
from unskew.errors import UsageError

if TYPE_CHECKING:
    from unskew.apps.keyed.reading import States


def state(
    run: Annotated[str, typer.Argument(help="The run's name (as its topics begin), or its checkpoint's address.")],
    key: Annotated[str | None, typer.Option(help="One key's states, in full.")] = None,
    worker: Annotated[int | None, typer.Option(min=0, help="Only what lies at this worker.")] = None,
    top: Annotated[int, typer.Option(min=1, help="So many keys with the largest states.")] = 10,
    conf: Conf = None,
) -> None:
    """Show what the workers of a topology with states hold: keys, bytes, the largest, one key's in full.

    It reads the run's checkpoint as of its last batch; the run may go on meanwhile.

    Example: unskew state country-skew-80-s5-w10-dc --key Turkey
    """
    from pathlib import Path

    from unskew.apps.checkpoint.place import asked
    from unskew.apps.keyed.reading import States
    from unskew.apps.run.jvm import lasting
    from unskew.apps.run.session import log_file, start

    own = home() / "checkpoints" / run
    location = run if "://" in run or not own.exists() else str(own)
    if "://" not in location and not Path(location).exists():
        there = sorted(path.name for path in (home() / "checkpoints").glob("*")) or ["none yet"]
        raise UsageError(f"there is no run {run!r}; valid: {', '.join(there)}, or the path of a checkpoint")
    given = pairs("--conf", conf or [])
    place = asked(location, given)
    spark = start(f"state of {run}", "local[2]", 2, given, place)
    with lasting(spark, log_file()):
        states = States(spark, place)
        if worker is not None and worker >= states.workers:
            raise UsageError(f"worker is {worker}; valid: 0 to {states.workers - 1}")
        if key is not None:
            _one(states, key, worker)
        else:
            _all(states, worker, top)


def _one(states: "States", key: str, worker: int | None) -> None:
    found = [row for row in states.rows(full=True, key=key).collect() if worker is None or row["number"] == worker]
    if not found:
        raise UsageError(f"no state of the key {key!r}" + (f" at worker {worker}" if worker is not None else ""))
    for row in sorted(found, key=lambda row: (row["window"], row["at"], row["number"])):
        window = f", window {_time(row['window'])}" if row["window"] else ""
        print(f"{row['at'][:-1]} {row['number']}{window}: {row['bytes']:,} bytes, last tuple {_time(row['last'])}")
        print(f"  {row['state']}")


def _all(states: "States", worker: int | None, top: int) -> None:
    from pyspark.sql import functions as F
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(title=f"states of {states.work}", title_justify="left")
    table.add_column("at")
    for heading in ("keys", "bytes", "buckets", "windows"):
        table.add_column(heading, justify="right")
    for (at, number), directory in sorted(states.directories.items(), reverse=False):
        if worker is None or number == worker:
            shelves = directory.shelves.values()
            numbers = [sum(int(shelf.keys.sum()) for shelf in shelves), sum(int(shelf.size.sum()) for shelf in shelves),
                       sum(len(shelf) for shelf in shelves), len(shelves)]  # fmt: skip
            table.add_row(f"{at[:-1]} {number}", *(f"{n:,}" for n in numbers))
    console.print(table)
    rows = states.rows()
    if worker is not None:
        rows = rows.where(F.col("number") == worker)
    places = F.concat_ws(" ", F.array_sort(F.collect_set(F.concat(F.substring("at", 1, 1), F.col("number")))))
    largest = rows.groupBy("key").agg(
        F.sum("bytes").alias("bytes"), places.alias("places"), F.max("last").alias("last")
    )
    table = Table("key", title=f"the {top} largest (w: at workers, h: at homes)", title_justify="left")
    for heading in ("bytes", "places", "last tuple"):
        table.add_column(heading, justify="right")
    for row in largest.orderBy(F.desc("bytes"), "key").limit(top).collect():
        table.add_row(row["key"], f"{row['bytes']:,}", row["places"], _time(row["last"]))
    console.print(table)


def _time(ms: Any) -> str:
    from unskew.apps.topology.messages import window_id

    return window_id(ms)
