"""A comparison as a table on the terminal, as CSV and JSON, and as a picture."""

import csv
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
from rich.console import Group
from rich.table import Table

from unskew.apps.cli.comparison.run_record import RunRecord
from unskew.apps.settings import Settings
from unskew.grouping.registry import get_colour
from unskew.shell import explain_unwritable

#: Measure → (its value for a course, the value's format, the measure in words), for the table, CSV and JSON.
MEASURES: dict[str, tuple[Callable[[RunRecord], float], str, str]] = {
    "std_dev": (lambda c: c.summary.std_dev, "{:.2f}", "STD_DEV of the workers' loads (%)"),
    "settled_std_dev": (lambda c: c.last_quarter_std_dev, "{:.2f}", "… in the last quarter"),
    "last_std_dev": (lambda c: c.summary.last_std_dev, "{:.2f}", "… in the last window"),
    "imbalance_fraction": (lambda c: c.summary.imbalance_fraction, "{:.4f}", "imbalance / tuples"),
    "dist_cost": (lambda c: c.summary.dist_cost, "{:.2f}", "DIST_COST: workers a key"),
    "hot_key_workers": (lambda c: c.hot_key_workers, "{:d}", "most workers of a hot key"),
    "slowest_seconds": (lambda c: c.slowest_seconds, "{:.3f}", "slowest worker (s a batch)"),
    "mean_seconds": (lambda c: c.mean_seconds, "{:.3f}", "mean worker (s a batch)"),
    "straggling": (lambda c: c.summary.straggling, "{:.2f}", "slowest / mean worker"),
    "settled_straggling": (lambda c: c.last_quarter_straggling, "{:.2f}", "… in the last quarter"),
    "tuples_per_second": (lambda c: c.summary.tuples_per_second, "{:,.0f}", "tuples/s after the first batch"),
    "tuples": (lambda c: c.summary.tuples, "{:,d}", "tuples counted"),
    "rejected": (lambda c: c.summary.rejected, "{:,d}", "rejected"),
    "late": (lambda c: c.summary.late, "{:,d}", "late"),
}
_ONLY_IF_ANY = ("rejected", "late")
# These are in the files only: the last window may have three tuples.
_NOT_SHOWN = ("last_std_dev",)


def format_tables(courses: Sequence[RunRecord], width: int) -> Group:
    """The measures, a column for each run, in as many tables as a terminal of ``width`` characters needs."""
    none = [m for m in _ONLY_IF_ANY if not any(MEASURES[m][0](c) for c in courses)]
    shown = [m for m in MEASURES if m not in _NOT_SHOWN and m not in none]
    label = max(len(MEASURES[measure][2]) for measure in shown) + 4
    groups: list[list[RunRecord]] = [[]]
    for course in courses:
        needed = label + sum(len(c.grouping) + 5 for c in [*groups[-1], course])
        if groups[-1] and needed > width:
            groups.append([])
        groups[-1].append(course)
    return Group(*(_make_table(group, shown) for group in groups))


def _make_table(courses: Sequence[RunRecord], shown: Sequence[str]) -> Table:
    table = Table("")
    for course in courses:
        table.add_column(f"[{get_colour(course.grouping)}]■[/] {course.grouping}", justify="right", no_wrap=True)
    for measure in shown:
        value, form, what = MEASURES[measure]
        table.add_row(what, *(form.format(value(course)) for course in courses))
    return table


def tabulate_records(courses: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """The measures, a row for each run."""
    return [
        {"grouping": course.grouping} | {measure: value(course) for measure, (value, *_) in MEASURES.items()}
        for course in courses
    ]


def prepare_folder(folder: Path) -> None:
    """Make the output directory before any run takes time.

    Raises ``EnvironmentFault`` if the directory can't be made or written.
    """
    with explain_unwritable("--output", folder):
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()


def save_comparison(courses: Sequence[RunRecord], settings: Settings, folder: Path) -> list[Path]:
    """Write ``comparison.csv`` (the measures), ``comparison.json`` (each run's course) and ``comparison.png``."""
    # matplotlib takes a second to import: the runs needn't wait for it.
    from unskew.apps.cli.comparison.picture import draw_comparison

    rows = tabulate_records(courses)
    csv_file, json_file, picture = (folder / f"comparison.{ending}" for ending in ("csv", "json", "png"))
    with csv_file.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    details = [row | {"loads": course.loads} | asdict(course) for row, course in zip(rows, courses, strict=True)]
    for detail in details:
        del detail["summary"]
    document = {"settings": collect_settings(settings), "runs": details}
    json_file.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2))
    draw_comparison(courses, picture, subtitle=describe_settings(settings))
    return [csv_file, json_file, picture]


def collect_settings(settings: Settings) -> dict[str, Any]:
    """The settings that the runs have in common, as data."""
    same = ("source_type", "topic", "sources", "workers", "speed", "process_ms", "key_costs", "window", "time", "seed")
    return {name: getattr(settings, name) for name in same} | {"max_tuples": settings.batch_limit}


def describe_settings(settings: Settings) -> str:
    """The settings that the runs have in common, as a sentence."""
    return (
        f"{settings.topic} ({settings.source_type}), {settings.sources} sources, {settings.workers} workers, "
        f"{settings.cost}, windows of {settings.window:g} s, batches of at most {settings.batch_limit:,} tuples"
    )
