"""What happened in a run: kept as files, put together with that of other runs, and shown as tables."""

import csv
import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

from evidence.faults.faults import KINDS
from evidence.faults.samples import CHECKPOINT, MEASURES, Sample, trends
from evidence.tables import make_facts, make_table
from tests.oracle.truth import Verdict

_GOOD = "in good order (0)"
_COUNTED = ("inflicted", "behind", "ends", "refusals")
_SECONDS = ("recoveries", "catch_ups")
_MOST_PIDS = 1 << 22  # above any process number


@dataclass
class Course:
    """What happened in a run.

    ``scenes``: The run's seed and contestant. ``seconds``: How long faults were inflicted. ``inflicted``: Kind → how
    many faults of it there were. ``recoveries``: Kind → seconds from the end of each fault until a batch that was
    planned after it was committed. ``catch_ups``: Kind → seconds from the end of each fault until the run lagged no
    more than before it (``evidence.faults.recovery``). ``behind``: Kind → how many faults there were after which it
    still lagged more a minute after that batch. ``stuck``: Kinds of faults after which no batch was committed for four
    minutes: then the driver was killed. ``twins``: Times that a first driver ran on for four minutes beside a second
    one. ``taken_back``: Times that a first driver, started again, took the checkpoint back from a second, or didn't end
    in good order. ``refusals``: What the driver said, in a line, when its topic had been made again. ``unrefused``:
    Times that it went on with such a topic, or didn't say in a line that it doesn't. ``drained``, ``checked``: Whether
    all messages were counted at the end, and whether that was held against the truth. ``batches``, ``starts``,
    ``replays``: Batches committed, starts of the driver, and starts at which it ran a batch again as it had been
    planned. ``ends``: The driver's ends, by last line and exit code. ``tracebacks``: Ends at which the driver showed a
    traceback. ``verdict``: What was published, judged against the truth. ``samples``: What the processes and the
    checkpoint took.
    """

    scenes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    inflicted: Counter[str] = field(default_factory=Counter)
    recoveries: dict[str, list[float]] = field(default_factory=dict)
    catch_ups: dict[str, list[float]] = field(default_factory=dict)
    behind: Counter[str] = field(default_factory=Counter)
    stuck: list[str] = field(default_factory=list)
    twins: int = 0
    taken_back: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    unrefused: int = 0
    drained: bool = True
    checked: bool = True
    batches: int = 0
    starts: int = 0
    replays: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    tracebacks: int = 0
    verdict: Verdict = field(default_factory=Verdict)
    samples: list[Sample] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether nothing is wrong, as far as it has been checked."""
        wrong = self.stuck or self.twins or self.taken_back or self.unrefused
        return self.verdict.exact and self.drained and not wrong

    def save(self, folder: Path) -> None:
        """Write ``course.json`` and ``samples.csv``."""
        record = {**vars(self), "verdict": vars(self.verdict)}
        del record["samples"]
        (folder / "course.json").write_bytes(orjson.dumps(record, option=orjson.OPT_INDENT_2))
        with (folder / "samples.csv").open("w", newline="") as file:
            csv.writer(file).writerows([Sample._fields, *self.samples])

    @classmethod
    def load(cls, folder: Path) -> "Course":
        """Read what ``save`` wrote into a folder. The samples, which are long, may have been left out.

        Raises FileNotFoundError: There is no such course.
        """
        rows: list[dict[str, str]] = []
        if (folder / "samples.csv").exists():
            with (folder / "samples.csv").open(newline="") as file:
                rows = list(csv.DictReader(file))
        return cls._of((folder / "course.json").read_bytes(), rows)

    @classmethod
    def load_all(cls, path: Path) -> "list[Course]":
        """Read a folder that ``save`` wrote into, or a file of JSON lines, one a course, such as ``campaign.jsonl``."""
        if path.is_dir():
            return [cls.load(path)]
        return [cls._of(line) for line in path.read_bytes().splitlines()]

    @classmethod
    def _of(cls, text: bytes, rows: Sequence[Mapping[str, str]] = ()) -> "Course":
        record: dict[str, Any] = orjson.loads(text)
        verdict = Verdict(**record["verdict"] | {"rejected": Counter(record["verdict"]["rejected"])})
        samples = [
            Sample(float(row["at"]), row["kind"], int(row["pid"]), row["measure"], float(row["value"])) for row in rows
        ]
        counted = {name: Counter(record.get(name, {})) for name in _COUNTED}
        given: dict[str, Any] = record | counted | {"verdict": verdict, "samples": samples}
        return cls(**given)


def together(courses: Sequence[Course]) -> Course:
    """Several runs as one: their sums, and all their samples, in which a process number is of one run only."""
    whole = Course()
    for number, course in enumerate(courses):
        for part in fields(Course):
            if part.name not in ("verdict", "samples", *_SECONDS, "drained", "checked"):
                setattr(whole, part.name, getattr(whole, part.name) + getattr(course, part.name))
        whole.verdict += course.verdict
        whole.drained &= course.drained
        whole.checked &= course.checked
        for name in _SECONDS:
            for kind, took in getattr(course, name).items():
                getattr(whole, name).setdefault(kind, []).extend(took)
        whole.samples += [sample._replace(pid=sample.pid + number * _MOST_PIDS) for sample in course.samples]
    return whole


def show(courses: Sequence[Course], console: Console) -> None:
    """Print runs' tables: one line each; then together faults, result, rejected messages, ends, what was taken."""
    course = together(courses)
    console.print(_runs(courses))
    console.print(_faults(course))
    console.print(_result(course))
    console.print(_rejected(course))
    console.print(_ends(course))
    console.print(_taken(course))


def _runs(courses: Sequence[Course]) -> Table:
    columns = "minutes", "faults", "starts", "batches", "tuples, rows", "ids", "lost", "doubled", "wrong", "stuck"
    table = make_table("seed: contestant", *columns, "")
    for course in courses:
        verdict, checked = course.verdict, course.checked
        wrong = verdict.altered + verdict.rejected_wrongly + verdict.acknowledged_missing
        counts = (verdict.tuples, verdict.ids, verdict.lost, verdict.doubled, wrong)
        minutes = f"{course.seconds / 60:.0f}"
        done = (f"{count:,}" for count in (course.inflicted.total(), course.starts, course.batches))
        found = (f"{count:,}" if checked else "" for count in counts)
        stuck = f"{len(course.stuck) + course.twins:,}"
        table.add_row(", ".join(course.scenes), minutes, *done, *found, stuck, _state(course))
    return table


def _state(course: Course) -> str:
    if not course.checked:
        return "not checked"
    if not course.drained:
        return "not drained"
    if course.taken_back:
        return "a driver took the checkpoint back"
    return "a topic made again is not refused" if course.unrefused else ""


def _faults(course: Course) -> Table:
    recovery = "next batch after, s: median", "worst", "at its rate after, s: median", "worst"
    table = make_table("fault", "times", *recovery, "still behind a minute later")
    for kind, times in sorted(course.inflicted.items(), key=lambda item: list(KINDS).index(item[0])):
        on_again, caught_up = course.recoveries.get(kind, []), course.catch_ups.get(kind, [])
        behind = course.behind[kind]
        seconds = *_middle_and_worst(on_again), *_middle_and_worst(caught_up)
        table.add_row(KINDS[kind].what, str(times), *seconds, str(behind or ""))
    every = ([took for of in each.values() for took in of] for each in (course.recoveries, course.catch_ups))
    seconds = (shown for each in every for shown in _middle_and_worst(each))
    table.add_row("all", str(course.inflicted.total()), *seconds, str(course.behind.total() or ""))
    return table


def _middle_and_worst(seconds: list[float]) -> tuple[str, str]:
    return (f"{statistics.median(seconds):.1f}", f"{max(seconds):.1f}") if seconds else ("", "")


def _result(course: Course) -> Table:
    verdict = course.verdict
    rows: dict[str, str | int] = {
        "minutes of faults": f"{course.seconds / 60:.0f}",
        "batches": course.batches,
        "starts of the driver": course.starts,
        "… that replayed a batch": course.replays,
        "times that no batch was committed for four minutes": len(course.stuck),
        "… that a first driver ran on beside a second": course.twins,
        "times that one, started again, took the checkpoint back, or didn't end in good order": course.taken_back,
        "topics made again": course.inflicted["remade"],
        "… that weren't refused in a line": course.unrefused,
        "… tuples of windows that were open then": verdict.abandoned,
        "tuples, or rows of an own session": verdict.tuples,
        "ids that works told": verdict.ids,
        "windows": verdict.windows,
        "… published twice": verdict.windows_again,
        "… with another value, or kept with a wrong one": verdict.altered,
        "messages rejected": verdict.rejected.total(),
        "… wrongly, not, or for another reason": verdict.rejected_wrongly,
        "messages acknowledged but not in the topic": verdict.acknowledged_missing,
        "tuples, rows and ids lost": verdict.lost,
        "… doubled": verdict.doubled,
    }
    return make_facts(rows)


def _rejected(course: Course) -> Table:
    table = make_table("rejected as", "messages")
    for reason, messages in course.verdict.rejected.most_common():
        table.add_row(reason, f"{messages:,}")
    return table


def _ends(course: Course) -> Table:
    table = make_table("the driver's last line (exit code)", "times")
    ends: Counter[str] = Counter()
    for line, times in course.ends.items():
        ends[_GOOD if line.endswith("(0)") else re.sub(r"^.* \((-9)\)$", r"killed (\1)", line)] += times
    for line, times in ends.most_common():
        table.add_row(line, str(times))
    table.add_row("… with a traceback", str(course.tracebacks))
    for line, times in course.refusals.most_common():
        table.add_row(f"of a topic made again: {line}", str(times))
    return table


def _taken(course: Course) -> Table:
    table = make_table("", "parts", "longest, min", "", "at the start", "at the end", "an hour")
    found = trends(course.samples)
    for kind in sorted({kind for kind, _ in found}, key=lambda kind: (kind == CHECKPOINT, kind)):
        for measure in MEASURES:
            if trend := found.get((kind, measure)):
                ends = f"{trend.first:,.0f}", f"{trend.last:,.0f}", f"{trend.slope:+,.1f}"
                table.add_row(kind, str(trend.parts), f"{trend.longest / 60:.1f}", measure, *ends)
    return table
