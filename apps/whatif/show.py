"""A simulation's outcomes as tables and as files."""

import csv
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Group
from rich.table import Table

from unskew.apps.monitoring.colours import colour
from unskew.errors import EnvironmentFault
from unskew.grouping.simulator import Outcome

#: What it is → how it's shown.
MEASURES: dict[str, Callable[[Outcome], str]] = {
    "imbalance, end (% of tuples)": lambda o: f"{100 * o.final_imbalance:.3g}",
    "imbalance, mean over time": lambda o: f"{100 * o.average_imbalance:.3g}",
    "imbalance of work, end (%)": lambda o: f"{100 * o.work_imbalance:.3g}",
    "STD_DEV of loads (%)": lambda o: f"{o.std_dev:.3g}",
    "skew S": lambda o: f"{o.skew:.3g}",
    "replication: workers a key": lambda o: f"{o.replication:.3f}",
    "memory: partial results": lambda o: f"{o.memory:,}",
    "aggregation messages": lambda o: f"{o.aggregation_messages:,}",
    "plans adopted": lambda o: f"{o.plans:,}",
    "keys moved": lambda o: f"{o.moved_keys:,}",
    "migration cost": lambda o: f"{o.migration:,.0f}",
    "tuples passed on": lambda o: f"{o.forwarded:,}",
    "queue, mean": lambda o: f"{o.mean_queue:,.1f}",
    "queue, longest": lambda o: f"{o.longest_queue:,}",
    "completion, mean (ms)": lambda o: f"{o.mean_completion:,.1f}",
    "completion, p99 (ms)": lambda o: f"{o.p99_completion:,.1f}",
    "makespan (s)": lambda o: f"{o.makespan / 1000:,.1f}",
    "routing, measured (ns)": lambda o: f"{o.routing_ns:,.0f}",
}
_ONLY_WITH_PLANS = ("plans adopted", "keys moved", "migration cost", "tuples passed on")


def table(outcomes: Mapping[str, Outcome], width: int) -> Group:
    """The figures, a column a label; as many tables as a terminal of ``width`` characters needs."""
    first = next(iter(outcomes.values()))
    shown = [m for m in MEASURES if m not in _ONLY_WITH_PLANS or any(o.plans for o in outcomes.values())]
    columns = {label: f"[{colour(o.grouping)}]■[/] " + label.replace(":", "\n") for label, o in outcomes.items()}
    widest = 5 + max(len(line) for label in outcomes for line in label.split(":"))
    room = max(1, (width - max(map(len, shown)) - 4) // widest)
    labels = list(outcomes)
    title = f"{first.tuples:,} tuples of {first.distinct_keys:,} keys, S = {first.sources}, W = {first.workers}"
    tables: list[Table] = []
    for at in range(0, len(labels), room):
        part = Table("")
        for label in labels[at : at + room]:
            part.add_column(columns[label], justify="right", no_wrap=True)
        for what in shown:
            part.add_row(what, *(MEASURES[what](outcomes[label]) for label in labels[at : at + room]))
        tables.append(part)
    return Group(title, *tables)


def save(outcomes: Mapping[tuple[str, int], Outcome], folder: Path, stream: str) -> list[Path]:
    """Write ``series.parquet``, ``figures.csv`` and pictures; the files written.

    Raises
    ------
    EnvironmentFault
        The folder can't be written.

    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from unskew.apps.whatif.picture import draw_by_workers, draw_over_time

    try:
        folder.mkdir(parents=True, exist_ok=True)
        parts = [
            pa.table(
                {
                    "grouping": [label] * len(o.series["tuples"]),
                    "workers": [workers] * len(o.series["tuples"]),
                    **o.series,
                }
            )
            for (label, workers), o in outcomes.items()
        ]
        files = [folder / "series.parquet", folder / "figures.csv"]
        pq.write_table(pa.concat_tables(parts), files[0])
        rows = [{"label": label} | outcome.figures() for (label, _), outcome in outcomes.items()]
        with files[1].open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        counts = sorted({workers for _, workers in outcomes})
        for count in counts:
            files.append(folder / f"over-time-w{count}.png")
            here = {label: outcome for (label, at), outcome in outcomes.items() if at == count}
            draw_over_time(here, f"{stream}, W = {count}", files[-1])
        if len(counts) > 1:
            files.append(folder / "by-workers.png")
            draw_by_workers(outcomes, counts, stream, files[-1])
    except OSError as error:
        raise EnvironmentFault(f"--output {folder} can't be written ({error.strerror}): choose another") from error
    return files
