"""Predicts a stage's time if its tasks had equal loads."""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.apps.diagnosis.stage_tasks import LOADS, StageTasks

#: The fullest task over the mean with PLANNED (`docs/groupings.md`), rounded up.
BALANCED = 1.05
_AS_WELL = 0.02  # of the variance: so much less than another a preferred load may explain


@dataclass(frozen=True, slots=True)
class CostModel:
    """A task's time: ``fixed`` + ``each`` · load."""

    load: str  #: One of ``LOADS``.
    fixed: float  #: Seconds per task, and per row or byte.
    each: float
    explained: float  #: The explained share of the variance of the tasks' times.

    def predict(self, loads: NDArray[np.float64]) -> NDArray[np.float64]:
        """Predict the tasks' times (s)."""
        return self.fixed + self.each * loads


def fit_cost(load: str, loads: NDArray[np.float64], seconds: NDArray[np.float64]) -> CostModel:
    """Fit a line to the tasks' times by least squares, without negative coefficients."""
    loads_off, seconds_off = loads - loads.mean(), seconds - seconds.mean()
    spread = float(loads_off @ loads_off)
    each = max(float(loads_off @ seconds_off) / spread, 0.0) if spread else 0.0
    fixed = float(seconds.mean() - each * loads.mean())
    if fixed < 0:
        fixed, each = 0.0, float(loads @ seconds) / float(loads @ loads)
    off = seconds - fixed - each * loads
    variance = float(seconds_off @ seconds_off)
    return CostModel(load, fixed, each, 1 - float(off @ off) / variance if variance else 0.0)


def choose_cost(stage: StageTasks) -> CostModel:
    """The model whose load explains the tasks' times best; the first of ``LOADS`` among about equal ones."""
    models = [fit_cost(load, stage.get_numbers(load), stage.durations) for load in LOADS]
    best = max(model.explained for model in models)
    return next(model for model in models if model.explained >= best - _AS_WELL)


def schedule_tasks(seconds: Iterable[float], slots: int) -> float:
    """When the last task ends if each in turn takes the first free slot, as Spark does.

    >>> schedule_tasks([3, 1, 1, 1], 2), schedule_tasks([1, 1, 1, 3], 2)
    (3.0, 4.0)
    """
    free = [0.0] * slots
    for each in seconds:
        heapq.heapreplace(free, free[0] + each)
    return max(free)


def predict_even(stage: StageTasks, model: CostModel) -> float:
    """The stage's time (s) with as many tasks of equal load, except the fullest, which has ``BALANCED``."""
    loads = np.full(len(stage.tasks), stage.get_numbers(model.load).mean())
    loads[0] *= BALANCED
    return schedule_tasks(model.predict(loads), stage.concurrency)
