"""The schemes' runs of TPC-H's query 5, beside what DuckDB computes."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from evidence.papers.mixed.q5 import operators
from evidence.papers.mixed.q5.operators import COST_MS
from evidence.papers.mixed.q5.oracle import Revenue, compute_revenue
from evidence.papers.mixed.q5.query import (
    WORKERS,
    Measured,
    join_at_one_worker,
    join_at_several_workers,
    look_up_at_one_worker,
    look_up_at_several_workers,
    run_chain,
)
from evidence.papers.mixed.q5.workload import F, Z, make_warehouse
from evidence.papers.page import Sizing
from evidence.papers.stage import Course, Stage, shipped

THETAS = (0.02, 0.3)
STORM, MIXED, OURS = "Storm", "Mixed, θmax = {:g}", "balanced_join, balanced_lookup"
SETTING = (
    f"N_D = {WORKERS} at each operator; scale factor 0.1 times the scale. Foreign keys have z = {Z} (the paper's z is",
    f"lost in our text) and f = {F:g}; they change every 15 minutes of an hour. Windows have 5 minutes. Storm, Mixed:",
    "chains of three keyed operators with states, the join of orders with their items, the lookup of suppliers, and",
    "that of customers. Last row: hot keys are split, in the join, too.",
    "Items/s: as if each operator waited for the slowest worker of the one before, without the first batch; a tuple",
    f"costs {COST_MS:g} ms at each operator. The revenue is exact if that of each window and nation is DuckDB's.",
)


@dataclass(frozen=True)
class Run:
    """A run of the query, without its first batch.

    ``operators``: Key → the course of the operator that is keyed by it. ``moved``: The states that moved. ``wrong``:
    The number of windows' and nations' revenues that aren't DuckDB's.
    """

    operators: dict[str, Course]
    moved: int
    wrong: int

    @property
    def throughputs(self) -> NDArray[np.float64]:
        """Items/s of each batch, as if each operator waited for the slowest worker of the one before.

        A split join may find its last pairs in a batch without rows, which is one more for the operators behind it. It
        is left out.
        """
        least = min(len(course.busy) for course in self.operators.values())
        seconds = sum(course.busy[:least].max(axis=1) for course in self.operators.values())
        return self.operators["suppkey"].tuples[:least].sum(axis=1) / seconds  # each item comes there once


def make_schemes() -> dict[str, Callable[[SparkSession, Path, Path], Measured]]:
    """Scheme → what runs it in a session over the folder of the tables, with a folder of its own."""

    def run_at_one(grouping: str, **options: float) -> Callable[[SparkSession, Path, Path], Measured]:
        join, look_up = (
            partial(each, grouping=grouping, **options) for each in (join_at_one_worker, look_up_at_one_worker)
        )
        return partial(run_chain, join=join, look_up=look_up)

    return {
        STORM: run_at_one("KEY"),
        **{MIXED.format(theta): run_at_one("MIXED", theta_max=theta) for theta in THETAS},
        OURS: partial(run_chain, join=join_at_several_workers, look_up=look_up_at_several_workers),
    }


@cache
def run_all(settings: Sizing, stage: Stage) -> dict[str, Run]:
    """The run of each scheme."""
    shipped(operators)
    spark, warehouse = stage.open_session(WORKERS), make_warehouse(settings, WORKERS)
    folder = stage.folder / f"q5-{settings.scale:g}"
    warehouse.write(folder / "tables")
    wanted = compute_revenue(warehouse)
    runs = enumerate(make_schemes().items())
    return {
        scheme: summarise(run(spark, folder / "tables", folder / str(number)), wanted) for number, (scheme, run) in runs
    }


def summarise(measured: Measured, wanted: Revenue) -> Run:
    """A run from what is measured of it. A worker's time is what its tuples cost."""
    courses = measured.operators
    paced = {key: replace(course, busy=course.tuples * COST_MS / 1000).within(1) for key, course in courses.items()}
    moved = sum(int(course.moved.sum()) for course in courses.values())
    return Run(paced, moved, len({key for key, _ in measured.revenue.items() ^ wanted.items()}))
