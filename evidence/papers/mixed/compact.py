"""Figure 11: planning with the compact representation, by degree of discretisation."""

import statistics
import time
from functools import cache
from itertools import islice
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from evidence.papers.mixed.sweeps import base
from evidence.papers.page import Report, Sizing
from unskew.grouping import encode_keys
from unskew.grouping.registry import get_colour
from unskew.grouping.table import KeyRecords, Mixed
from unskew.grouping.table.assignment import max_overload, sum_by_position
from unskew.grouping.table.compact import expand_groups, group_records

DEGREES = (1, 2, 4, 16, 64, 256)


class Compacted(NamedTuple):
    """One degree of discretisation.

    ``degree``: R; None: the original key space. ``records``: The number of vectors with which is planned. ``grouping``,
    ``planning``: CPU ms to make the vectors from the keys' statistics, and to plan with them: medians. ``mean_error``,
    ``max_error``: % by which the load estimated from the vectors is off the true load, over the workers. ``theta``: %
    by which the highest true load is above the mean after the plan.
    """

    degree: int | None
    records: int
    grouping: float
    planning: float
    mean_error: float
    max_error: float
    theta: float


@cache
def over_degrees(settings: Sizing) -> list[Compacted]:
    """MIXED with Table 2's defaults, and a million keys times the scale, but a hundred thousand."""
    case = base(settings).at(keys=settings.of(1_000_000, least=100_000))
    scheme = Mixed(case.workers, theta_max=case.options["theta_max"], table_max=case.options["table_max"])
    home = scheme.home(np.sort(encode_keys(np.arange(case.workload.keys)).hashes))
    before, now = islice(case.workload.intervals(home, case.workers), 2)
    current = home
    ones = np.ones(len(home), np.int64)
    for cost in (before, now):
        keys = KeyRecords(cost, np.maximum(before + now, 1), current, home, ones, case.workers)
        assignment = scheme.assign(keys, keys.limit(scheme.theta_max))
        if cost is before:
            current = np.empty_like(home)
            current[assignment.record] = assignment.worker
    return [_compacted(scheme, keys, degree) for degree in (None, *DEGREES)]


def _compacted(scheme: Mixed, keys: KeyRecords, degree: int | None, repetitions: int = 3) -> Compacted:
    times: list[tuple[float, float]] = []
    records, group = keys, np.arange(len(keys))
    assignment = scheme.assign(records, records.limit(scheme.theta_max))
    for _ in range(repetitions):
        started = time.process_time()
        if degree is not None:
            records, group = group_records(keys, degree)
        grouped = time.process_time()
        assignment = scheme.assign(records, records.limit(scheme.theta_max))
        times.append((grouped - started, time.process_time() - grouped))
    grouping, planning = (1000 * statistics.median(column) for column in zip(*times, strict=True))
    true = keys.loads()
    errors = 100 * np.abs(records.loads() - true) / true
    destination = expand_groups(assignment, group, scheme.priority(keys))
    theta = 100 * max_overload(sum_by_position(destination, keys.cost, keys.workers))
    return Compacted(degree, len(records), grouping, planning, float(errors.mean()), float(errors.max()), theta)


def figure_11(settings: Sizing) -> Report:
    """Time to plan and error of the load estimate, by degree of discretisation."""
    results = over_degrees(settings)
    names = ["none" if c.degree is None else str(c.degree) for c in results]
    panels = {
        "ms": {"plan": [c.planning for c in results], "group and plan": [c.grouping + c.planning for c in results]},
        "error of the load estimate, %": {
            "mean": [c.mean_error for c in results],
            "worst worker": [c.max_error for c in results],
        },
    }

    def draw(figure: Figure) -> None:
        for panel, (what, lines) in zip(figure.subplots(1, 2), panels.items(), strict=True):
            for (label, values), scheme in zip(lines.items(), ("MIXED", "MINMIG"), strict=True):
                panel.plot(names, values, color=get_colour(scheme), marker=".", label=label)
            panel.set(xlabel="R", ylabel=what, yscale="log" if what == "ms" else "linear")
            panel.legend()

    return Report(
        f"Mixed, figure 11: compact representation of {results[0].records:,} keys",
        ("R", "records", "group, ms", "plan, ms", "load error, %", "worst worker's, %", "θ, %"),
        [(name, *result[1:]) for name, result in zip(names, results, strict=True)],
        ["none: the original key space. The paper's time is the plan's; it says nothing of grouping."],
        draw,
    )
