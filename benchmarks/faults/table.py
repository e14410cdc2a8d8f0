"""What a run of the campaign found, as tables."""

import re
import statistics
from collections import Counter

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from benchmarks.faults.course import Course
from benchmarks.faults.plan import KINDS
from benchmarks.faults.samples import CHECKPOINT, MEASURES, trends

_GOOD = "in good order (0)"


def show(course: Course, console: Console) -> None:
    """Print all of them."""
    console.print(_faults(course))
    console.print(_result(course))
    console.print(_rejected(course))
    console.print(_ends(course))
    console.print(_taken(course))


def _faults(course: Course) -> Table:
    table = _table("fault", "times", "on again after, s: median", "worst")
    for kind, times in sorted(course.inflicted.items(), key=lambda item: list(KINDS).index(item[0])):
        table.add_row(KINDS[kind].what, str(times), *_middle_and_worst(course.recoveries.get(kind, [])))
    every = [took for of in course.recoveries.values() for took in of]
    table.add_row("all", str(course.inflicted.total()), *_middle_and_worst(every))
    return table


def _middle_and_worst(seconds: list[float]) -> tuple[str, str]:
    return (f"{statistics.median(seconds):.1f}", f"{max(seconds):.1f}") if seconds else ("", "")


def _result(course: Course) -> Table:
    verdict = course.verdict
    table = _table("", "")
    for scene in course.scenes:
        table.add_row(f"seed {scene}", "")
    for what, number in {
        "minutes of faults": f"{course.seconds / 60:.0f}",
        "batches": course.batches,
        "starts of the driver": course.starts,
        "… that replayed a batch": course.replays,
        "times that no batch was committed for four minutes": len(course.stuck),
        "tuples": verdict.tuples,
        "windows": verdict.windows,
        "… published twice": verdict.windows_again,
        "… with another value": verdict.altered,
        "messages rejected": verdict.rejected.total(),
        "… wrongly, not, or for another reason": verdict.rejected_wrongly,
        "messages acknowledged but not in the topic": verdict.acknowledged_missing,
        "tuples lost": verdict.lost,
        "tuples doubled": verdict.doubled,
    }.items():
        table.add_row(what, number if isinstance(number, str) else f"{number:,}")
    return table


def _rejected(course: Course) -> Table:
    table = _table("rejected as", "messages")
    for reason, messages in course.verdict.rejected.most_common():
        table.add_row(reason, f"{messages:,}")
    return table


def _ends(course: Course) -> Table:
    table = _table("the driver's last line (exit code)", "times")
    ends: Counter[str] = Counter()
    for line, times in course.ends.items():
        ends[_GOOD if line.endswith("(0)") else re.sub(r"^.* \((-9)\)$", r"killed (\1)", line)] += times
    for line, times in ends.most_common():
        table.add_row(line, str(times))
    table.add_row("… with a traceback", str(course.tracebacks))
    return table


def _taken(course: Course) -> Table:
    table = _table("", "parts", "longest, min", "", "at the start", "at the end", "an hour")
    found = trends(course.samples)
    for kind in sorted({kind for kind, _ in found}, key=lambda kind: (kind == CHECKPOINT, kind)):
        for measure in MEASURES:
            if trend := found.get((kind, measure)):
                ends = f"{trend.first:,.0f}", f"{trend.last:,.0f}", f"{trend.slope:+,.1f}"
                table.add_row(kind, str(trend.parts), f"{trend.longest / 60:.1f}", measure, *ends)
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=MARKDOWN)
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table
