"""What has happened in a run, kept as files, and put together with that of other runs."""

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import orjson

from benchmarks.faults.samples import Sample
from benchmarks.faults.truth import Verdict

_MOST_PIDS = 1 << 22


@dataclass
class Course:
    """What has happened.

    Attributes
    ----------
    scenes : list of str
        The run's seed, grouping and time.
    seconds : float
        That faults were inflicted over.
    inflicted : Counter
        Faults by kind.
    recoveries : dict
        kind → seconds from the end of a fault until a batch planned after that was committed.
    stuck : list of str
        Faults after which none was, for four minutes: the driver was killed then.
    batches, starts, replays : int
        Batches committed, starts of the driver, batches that it began with as they had been planned.
    ends : Counter
        The driver's ends by code and last line.
    tracebacks : int
        Ends at which the driver showed one.
    verdict : Verdict
        The check against the truth.
    samples : list of Sample
        What it took.

    """

    scenes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    inflicted: Counter[str] = field(default_factory=Counter)
    recoveries: dict[str, list[float]] = field(default_factory=dict)
    stuck: list[str] = field(default_factory=list)
    batches: int = 0
    starts: int = 0
    replays: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    tracebacks: int = 0
    verdict: Verdict = field(default_factory=Verdict)
    samples: list[Sample] = field(default_factory=list)

    def save(self, folder: Path) -> None:
        """Write ``course.json`` and ``samples.csv``."""
        said = {**vars(self), "verdict": vars(self.verdict)}
        del said["samples"]
        (folder / "course.json").write_bytes(orjson.dumps(said, option=orjson.OPT_INDENT_2))
        with (folder / "samples.csv").open("w", newline="") as file:
            csv.writer(file).writerows([Sample._fields, *self.samples])

    @classmethod
    def load(cls, folder: Path) -> "Course":
        """Read what ``save`` wrote.

        Raises
        ------
        FileNotFoundError
            There is none.

        """
        said: dict[str, Any] = orjson.loads((folder / "course.json").read_bytes())
        verdict = Verdict(**said["verdict"] | {"rejected": Counter(said["verdict"]["rejected"])})
        with (folder / "samples.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        samples = [
            Sample(float(row["at"]), row["kind"], int(row["pid"]), row["measure"], float(row["value"])) for row in rows
        ]
        counted = {name: Counter(said[name]) for name in ("inflicted", "ends")}
        return cls(**said | counted | {"verdict": verdict, "samples": samples})


def together(courses: Sequence[Course]) -> Course:
    """Several runs as one: sums, and all that was sampled, each run's processes being its own."""
    whole = Course()
    for number, course in enumerate(courses):
        for part in fields(Course):
            if part.name not in ("verdict", "samples", "recoveries"):
                setattr(whole, part.name, getattr(whole, part.name) + getattr(course, part.name))
        for part in fields(Verdict):
            total = getattr(whole.verdict, part.name) + getattr(course.verdict, part.name)
            setattr(whole.verdict, part.name, total)
        for kind, took in course.recoveries.items():
            whole.recoveries.setdefault(kind, []).extend(took)
        whole.samples += [sample._replace(pid=sample.pid + number * _MOST_PIDS) for sample in course.samples]
    return whole
