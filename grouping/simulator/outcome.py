"""A simulation's outcome: figures of the whole run, and samples over time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.kernel_cache import kernel
from unskew.grouping.measures import dist_cost, imbalance_fraction, load_skew, std_dev
from unskew.grouping.simulator.feedback import FeedbackChannel
from unskew.grouping.simulator.sources import Sources
from unskew.grouping.simulator.workers import FifoWorkers
from unskew.grouping.simulator.workload import Workload


@dataclass(frozen=True, slots=True)
class SimulationOutcome:
    """The outcome of one scheme on one workload. Loads are in tuples, or work in ms."""

    grouping: str
    sources: int
    workers: int
    tuples: int
    distinct_keys: int
    average_imbalance: float  # the mean of I(t) over all tuples, as a fraction of m (PKG's measure)
    final_imbalance: float  # I(m) / m
    work_imbalance: float  # the same at the end, of work
    std_dev: float  # of the workers' shares at the end, in % (DKG's measure)
    skew: float  # S of the DPA paper, at the end
    replication: float  # replicas of a key, on average (DIST_COST)
    memory: int  # (key, worker) pairs: partial results at all workers
    aggregation_messages: int  # (window, key, worker) pairs: partial results sent on
    plans: int  # adopted
    moved_keys: int  # keys whose worker changed by a plan
    migration: float  # their state, in the scheme's unit
    forwarded: int  # waiting tuples passed on to another worker
    mean_queue: float  # tuples waiting at a worker, mean over workers and samples
    longest_queue: int
    mean_completion: float  # ms from arrival to finish
    p99_completion: float
    makespan: float  # ms from the first arrival to the last finish
    routing_ns: float  # measured, a tuple, from encoded keys
    assigned: NDArray[np.int32]  # [n], the worker that executed each tuple
    completions: NDArray[np.float64]  # [n], ms
    loads: NDArray[np.int64]  # [W], tuples
    batch_ends: NDArray[np.int64]  # [B], the tuples until the end of each batch, if the scheme plans batches
    series: Mapping[str, NDArray[Any]]  # by sample: see `unskew.grouping.simulator.outcome.compute_series`

    def figures(self) -> dict[str, Any]:
        """The figures by name, without arrays."""
        return {f.name: getattr(self, f.name) for f in fields(self)[:_FIGURES]}


_FIGURES = [f.name for f in fields(SimulationOutcome)].index("assigned")


def choose_marks(n: int, samples: int) -> NDArray[np.int64]:
    """The numbers of tuples after which to take a sample: int64[at most ``samples``], ascending, ending with n."""
    return np.unique(-(-np.arange(1, samples + 1) * n // samples))


def compute_series(
    workload: Workload,
    marks: NDArray[np.int64],
    loads: NDArray[np.int64],
    finishes: NDArray[np.float64],
    waiting: NDArray[np.int64],
) -> dict[str, NDArray[Any]]:
    """The figures of M samples, each an array [M]. "Recent" means the tuples since the previous sample.

    Since the start: ``tuples``, ``time`` (ms), ``imbalance`` I(t) in tuples, ``imbalance_fraction`` I(t)/t,
    ``std_dev``. At the sample: ``mean_queue``, ``longest_queue``. Of the recent tuples: ``recent_imbalance_fraction``,
    ``recent_std_dev``, ``mean_completion``, ``p99_completion`` and ``max_completion``; the last three are in ms.
    """
    recent = np.diff(loads, axis=0, prepend=0)
    completions = np.split(finishes - workload.arrivals, marks[:-1])
    return {
        "tuples": marks,
        "time": workload.arrivals[marks - 1],
        "imbalance": loads.max(axis=1) - loads.mean(axis=1),
        "imbalance_fraction": np.array([imbalance_fraction(row) for row in loads]),
        "std_dev": np.array([std_dev(row) for row in loads]),
        "recent_imbalance_fraction": np.array([imbalance_fraction(row) for row in recent]),
        "recent_std_dev": np.array([std_dev(row) for row in recent]),
        "mean_queue": waiting.mean(axis=1),
        "longest_queue": waiting.max(axis=1),
        "mean_completion": np.array([part.mean() for part in completions]),
        "p99_completion": np.array([np.percentile(part, 99) for part in completions]),
        "max_completion": np.array([part.max() for part in completions]),
    }


@kernel
def count_loads(assigned: NDArray[np.int32], marks: NDArray[np.int64], workers: int) -> tuple[NDArray[np.int64], float]:
    """The tuples of each worker at each mark, int64[M, W], and max load − mean load, averaged over all tuples."""
    at_marks = np.empty((len(marks), workers), np.int64)
    loads = np.zeros(workers, np.int64)
    most, total, mark = 0, 0.0, 0
    for i in range(len(assigned)):
        worker = assigned[i]
        loads[worker] += 1
        most = max(most, loads[worker])
        total += most - (i + 1) / workers
        if i + 1 == marks[mark]:
            at_marks[mark] = loads
            mark += 1
    return at_marks, float(total / max(1, len(assigned)))


def count_partials(workload: Workload, assigned: NDArray[np.int32], workers: int, window: float | None) -> int:
    """The number of partial results: distinct (window, key, worker). A window is ``window`` ms, or the whole run."""
    pairs = workload.keys.codes.astype(np.int64) * workers + assigned
    if window is not None and len(pairs):
        number = ((workload.arrivals - workload.arrivals[0]) // window).astype(np.int64)
        pairs += number * (len(workload.keys.hashes) * workers)
    pairs.sort()
    return int(len(pairs) and 1 + np.count_nonzero(np.diff(pairs)))


def compute_outcome(
    workload: Workload,
    senders: Sources,
    sources: int,
    workers: FifoWorkers,
    transit: FeedbackChannel | None,
    marks: NDArray[np.int64],
    waiting: NDArray[np.int64],
    window: float | None,
    batch_ends: Sequence[int],
) -> SimulationOutcome:
    """Compute the figures and the series of a run."""
    router, n = senders.routers[0], len(workload)
    at_marks, average = count_loads(workers.assigned, marks, router.workers)
    completions = workers.finishes - workload.arrivals
    keys = int(np.count_nonzero(np.bincount(workload.keys.codes)))  # a dictionary may have keys without tuples
    memory = count_partials(workload, workers.assigned, router.workers, None)
    return SimulationOutcome(
        grouping=router.name,
        sources=sources,
        workers=router.workers,
        tuples=n,
        distinct_keys=keys,
        average_imbalance=average / n,
        final_imbalance=imbalance_fraction(at_marks[-1]),
        work_imbalance=imbalance_fraction(np.bincount(workers.assigned, workers.services, router.workers)),
        std_dev=std_dev(at_marks[-1]),
        skew=load_skew(at_marks[-1]),
        replication=dist_cost(memory, keys),
        memory=memory,
        aggregation_messages=memory
        if window is None
        else count_partials(workload, workers.assigned, router.workers, window),
        plans=transit.plans if transit else 0,
        moved_keys=workers.moved + (transit.moved if transit else 0),
        migration=transit.migration if transit else 0.0,
        forwarded=workers.forward_count,
        mean_queue=float(waiting.mean()),
        longest_queue=int(waiting.max()),
        mean_completion=float(completions.mean()),
        p99_completion=float(np.percentile(completions, 99)),
        makespan=float(workers.finishes.max() - workload.arrivals[0]),
        routing_ns=senders.nanoseconds / n,
        assigned=workers.assigned,
        completions=completions,
        loads=at_marks[-1],
        batch_ends=np.array(batch_ends, np.int64),
        series=compute_series(workload, marks, at_marks, workers.finishes, waiting),
    )
