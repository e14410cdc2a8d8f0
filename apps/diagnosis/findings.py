"""Finds why a stage's slowest task is slow: it has more to do than the others, or another cause."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unskew.apps.diagnosis.prediction import choose_cost, predict_even, schedule_tasks
from unskew.apps.diagnosis.sql_plans import SHUFFLED_KINDS, choose_kind
from unskew.apps.diagnosis.stage_tasks import LOADS, StageTasks, Task, compare_to_median

#: A stage is examined if its slowest task takes this multiple of the median, and costs at least so much time (s).
SLOW = 1.5
LEAST_SECONDS = 0.1
#: From this multiple of the median on, the advice says that a task has more to do than the others.
FULL = 1.2
_EXPLAINS = 0.5  # the least share of the excess time that excess load must explain to be the cause
_PART = 0.3  # of a task's time, from which on waiting or garbage collection is the cause
#: Cause → its text in a table.
CAUSES = {
    "skew": "skewed rows",
    "executor": "a slow executor",
    "garbage collection": "garbage collection",
    "shuffle": "waiting for shuffle blocks",
    "spill": "spilling to disk",
    "retry": "a second attempt",
    "locality": "far from its data",
    "start": "the start of an executor",
    "scheduling": "waiting for the driver",
    "rows": "costly rows",
}
_NEAR = {"PROCESS_LOCAL", "NODE_LOCAL", "NO_PREF"}


@dataclass
class Finding:
    """What slows down a stage, or one stage in all batches of a stream. All times are in s."""

    cause: str  #: One of ``CAUSES``.
    stage: StageTasks  #: The stage without its tasks; of a stream, the worst batch's.
    #: The stage's kind (``sql_plans.KINDS``, or ``scan`` if it reads no shuffle), and the operator's name in Spark.
    kind: str
    operator: str
    tasks: int  #: The number of tasks, and of those that can run at once.
    slots: int
    batches: int  #: The batches of a stream with this cause; 0 if it isn't a stream.
    #: The stage's time, and its prediction with equally loaded tasks (``skew``), or with none slower than the median.
    #: Of a stream, sums over the batches.
    seconds: float
    predicted: float
    #: The fullest task over the median, in each of ``LOADS`` and ``seconds``. Of a stream, each partition's rows and
    #: bytes are summed over the batches.
    ratios: dict[str, float]
    load: str  #: Which of ``LOADS`` the slowest task has too much of; empty if the cause isn't ``skew``.
    share: float  #: The slowest task's share of the load.
    fullest: float  #: The fullest task over the mean. The prediction has ``prediction.BALANCED``.
    slowest: Task  #: The slowest task.
    medians: dict[str, float]  #: The median of all tasks, in each of ``LOADS`` and ``seconds``.
    state_rows: float  #: The rows of the fullest partition's state stores over the median; 0 if there are none.
    #: The number of stages in which the slowest task's executor was slower than others, and of all its stages.
    executor_stages: tuple[int, int] = (0, 0)

    @property
    def saved(self) -> float:
        """The predicted saving (s)."""
        return max(self.seconds - self.predicted, 0.0)


class Findings:
    """The findings of an application's stages. It keeps figures of each, not tasks.

    Attributes
    ----------
    stages : int
        The number of stages examined.

    """

    def __init__(self) -> None:
        self.stages = 0
        self._found: dict[tuple[object, ...], Finding] = {}
        self._loads: dict[tuple[object, ...], dict[str, NDArray[np.float64]]] = {}  # per stream partition
        self._worst: dict[tuple[object, ...], float] = {}  # the worst batch's loss
        self._executors: dict[str, list[int]] = {}  # executor → its slow stages, and all

    def add(self, stage: StageTasks) -> None:
        self.stages += 1
        if len(stage.tasks) < 2:
            return
        ratios = compare_executors(stage)
        for executor, ratio in ratios.items():
            counts = self._executors.setdefault(executor, [0, 0])
            counts[0] += ratio >= SLOW
            counts[1] += 1
        if found := find_cause(stage, ratios):
            if stage.stream:
                self._add_batch(found, stage)
            else:
                self._found[stage.stage, stage.attempt] = found

    def _add_batch(self, new: Finding, stage: StageTasks) -> None:
        key = (stage.stream, new.cause, new.kind, new.operator, *stage.keys)
        loads = self._loads.setdefault(key, {load: np.zeros(0) for load in LOADS})
        partitions = stage.get_numbers("partition").astype(int)
        for load, values in loads.items():
            loads[load] = np.pad(values, (0, max(int(partitions.max()) + 1 - len(values), 0)))
            np.add.at(loads[load], partitions, stage.get_numbers(load))
        lost = new.saved
        if old := self._found.get(key):
            sums = old.seconds + new.seconds, old.predicted + new.predicted, old.batches + 1
            new = new if lost > self._worst[key] else old
            new.seconds, new.predicted, new.batches = sums
        new.ratios |= {load: compare_to_median(values) for load, values in loads.items()}
        self._worst[key] = max(lost, self._worst.get(key, 0.0))
        self._found[key] = new

    def list_worst(self, count: int) -> list[Finding]:
        """The findings that cost most, worst first."""
        worst = sorted(self._found.values(), key=lambda found: found.saved, reverse=True)[:count]
        for found in worst:
            slow, of = self._executors.get(found.slowest.executor, (0, 0))
            found.executor_stages = slow, of
        return worst


def find_cause(stage: StageTasks, ratios: dict[str, float]) -> Finding | None:
    """Why the slowest of at least two tasks is slow. None: it isn't, or takes hardly any time.

    The ratios are those of ``compare_executors``.
    """
    stage = replace(stage, tasks=sorted(stage.tasks, key=lambda task: (task.launch, task.partition)))
    durations = stage.durations
    place, median = int(durations.argmax()), float(np.median(durations))
    if durations[place] < SLOW * median or durations[place] - median < LEAST_SECONDS:
        return None
    place, load = _choose_slowest(stage)
    slower, slots = float(durations[place]) / median, stage.concurrency
    if load:
        cause, predicted = "skew", predict_even(stage, choose_cost(stage))
    else:
        cause = _explain(stage, stage.tasks[place], ratios, median)
        fastest = durations if cause == "start" else np.minimum(durations, median)  # a start costs the same again
        predicted = schedule_tasks(fastest, slots)
    kind, operator = choose_kind(stage.nodes)
    numbers = {name: stage.get_numbers(name) for name in LOADS}
    values, states = numbers[load or "rows_read"], stage.get_numbers("state_rows")
    return Finding(
        cause=cause,
        stage=replace(stage, tasks=[]),
        kind=kind if stage.is_shuffled or kind not in SHUFFLED_KINDS else "scan",
        operator=operator,
        tasks=len(stage.tasks),
        slots=slots,
        batches=int(bool(stage.stream)),
        seconds=stage.seconds,
        predicted=min(predicted, stage.seconds),
        ratios={name: compare_to_median(each) for name, each in numbers.items()} | {"seconds": slower},
        load=load,
        share=float(values[place] / values.sum()) if load else 0.0,
        fullest=float(values.max() / values.mean()) if load else 1.0,
        slowest=stage.tasks[place],
        medians={name: float(np.median(each)) for name, each in numbers.items()} | {"seconds": median},
        state_rows=compare_to_median(states) if states.min() >= 0 else 0.0,
    )


def _choose_slowest(stage: StageTasks) -> tuple[int, str]:
    """The position of the slowest task, and the load that explains its time.

    If no load explains it, it is its executor's first task, and a later task is slow because of load, that one is
    chosen.
    """
    durations, first = stage.durations, _find_first(stage.tasks)
    place = int(durations.argmax())
    load = _find_load(stage, place, float(durations[place] / np.median(durations)))
    later = [number for number, task in enumerate(stage.tasks) if task not in first]
    if not load and stage.tasks[place] in first and len(later) > 1:
        other, typical = max(later, key=lambda number: durations[number]), float(np.median(durations[later]))
        if durations[other] >= max(SLOW * typical, typical + LEAST_SECONDS):
            explained = _find_load(stage, other, float(durations[other]) / typical)
            return (other, explained) if explained else (place, "")
    return place, load


def _find_load(stage: StageTasks, place: int, slower: float) -> str:
    """The first of ``LOADS`` whose excess explains the slowest task's time; empty if none does."""
    for load in LOADS:
        values = stage.get_numbers(load)
        typical = float(np.median(values) or values.mean())
        ratio = values[place] / typical if typical else 1.0
        if ratio >= FULL and ratio - 1 >= _EXPLAINS * (slower - 1):
            return load
    return ""


def _explain(stage: StageTasks, slowest: Task, ratios: dict[str, float], median: float) -> str:
    """Why a task is slow though it has no more to do than others."""
    seconds = (slowest.finish - slowest.launch) / 1000
    others = [task for task in stage.tasks if task is not slowest]
    causes = {
        "start": _starts_slowly(stage.tasks, SLOW * median),
        "executor": ratios.get(slowest.executor, 1.0) >= SLOW,
        "garbage collection": _exceeds(slowest.gc / 1000, seconds, (task.gc / 1000 for task in others)),
        "shuffle": _exceeds(slowest.wait / 1000, seconds, (task.wait / 1000 for task in others)),
        "spill": slowest.spilled > 2 * float(np.median([task.spilled for task in others])),
        "retry": slowest.attempt > 0,
        "locality": slowest.locality not in _NEAR and sum(task.locality in _NEAR for task in others) > len(others) / 2,
        "scheduling": seconds - slowest.run / 1000 >= _EXPLAINS * seconds,
    }
    return next((cause for cause, is_it in causes.items() if is_it), "rows")


def _exceeds(own: float, seconds: float, others: Iterable[float]) -> bool:
    return own >= _PART * seconds and own >= 2 * float(np.median(list(others)))


def _starts_slowly(tasks: list[Task], limit: float) -> bool:
    """Whether all slow tasks are first tasks, of at least half of the executors."""
    slow = [task for task in tasks if (task.finish - task.launch) / 1000 >= limit]
    executors = {task.executor for task in tasks}
    return {*slow} <= _find_first(tasks) and 2 * len({task.executor for task in slow}) >= len(executors)


def _find_first(tasks: list[Task]) -> set[Task]:
    """The executors' first tasks, which compile code and start Python: launched before one had ended."""
    ended: dict[str, int] = {}
    for task in tasks:
        ended[task.executor] = min(task.finish, ended.get(task.executor, task.finish))
    return {task for task in tasks if task.launch < ended[task.executor]}


def compare_executors(stage: StageTasks) -> dict[str, float]:
    """Executor → the median time of its tasks over that of all others' tasks.

    First tasks are left out. An executor with fewer than two other tasks isn't compared: one may be hot.
    """
    times: dict[str, list[float]] = {}
    for task in {*stage.tasks} - _find_first(stage.tasks):
        times.setdefault(task.executor, []).append(task.finish - task.launch)
    later = {executor: own for executor, own in times.items() if len(own) > 1}
    ratios = {}
    for executor, own in later.items():
        if others := [time for name, of in later.items() if name != executor for time in of]:
            ratios[executor] = float(np.median(own) / max(np.median(others), 1))
    return ratios
