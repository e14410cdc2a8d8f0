"""Simulates a stream with a grouping and W workers."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.arguments import check_integer, check_number
from unskew.grouping.feedback import Monitor
from unskew.grouping.feedback_loop import FeedbackLoop, Interval, PlanState
from unskew.grouping.interface import Grouping
from unskew.grouping.simulator.feedback import FeedbackChannel, FeedbackTiming, sum_transfers
from unskew.grouping.simulator.outcome import SimulationOutcome, choose_marks, compute_outcome
from unskew.grouping.simulator.sources import Sources, Substreams
from unskew.grouping.simulator.workers import FifoWorkers, ForwardingWorkers
from unskew.grouping.simulator.workload import Speeds, Workload


def simulate(
    make: Callable[[], Grouping],
    workload: Workload,
    *,
    sources: int = 1,
    split: str = "even",
    speeds: Speeds | None = None,
    feedback: FeedbackTiming | None = None,
    window: float | None = None,
    samples: int = 200,
    batch: int | None = None,
) -> SimulationOutcome:
    """Route a workload with S sources, and serve it with W workers, first in, first out.

    A scheme with a controller gets feedback. Without one, each source routes its share at once, or batch by batch if
    the scheme plans batches; tuples don't wait for the end of their batch. All times are simulated except
    ``routing_ns``. Time O(1) a tuple besides the scheme's, and O(W) a sample and interval. Memory: about 40 bytes a
    tuple.

    Parameters
    ----------
    make : () → Grouping
        Creates a router, whose number of workers is W.
    workload : Workload
        n tuples, 1 ≤ n < 2^31.
    sources : int
        S ≥ 1. If a scheme is ``shared``, its sources share one router.
    split : "even" or "key"
        How tuples are divided between sources: in turn, or by the key's hash.
    speeds : Speeds, optional
        The workers' speeds. Default: all workers are alike.
    feedback : FeedbackTiming, optional
        For schemes with a controller. Its interval is also the batch of schemes that plan batches.
    window : float, ms, optional
        How often workers send their partial results to be aggregated. Default: only at the end.
    samples : int
        The number of samples in the series, at least 1.
    batch : int, optional
        The tuples per batch of schemes that plan batches. Default: those of a feedback interval.

    Raises
    ------
    ValueError
        A parameter is out of range.

    Examples
    --------
    >>> from unskew.grouping import create
    >>> from unskew.grouping.simulator import make_arrivals, make_workload
    >>> keys = ["tr"] * 800 + ["de", "fr"] * 100
    >>> stream = make_workload(keys, make_arrivals(0.8, 1.0, 1000, workers=4))
    >>> for name in ("SHUFFLE", "KEY", "PARTIAL_KEY"):
    ...     print(name, round(simulate(lambda: create(name, 4), stream).final_imbalance, 2))
    SHUFFLE 0.0
    KEY 0.65
    PARTIAL_KEY 0.15

    """
    if not len(workload):
        raise ValueError("the workload has no tuples")
    if window is not None:
        window = check_number("window", window, 0, above=True)
    senders = Sources(make, workload, check_integer("sources", sources, 1), split)
    router = senders.routers[0]
    speeds = speeds or Speeds.constant(np.ones(router.workers))
    if speeds.factors.shape[1] != router.workers:
        raise ValueError(f"speeds are of {speeds.factors.shape[1]} workers, there are {router.workers}")
    workers = ForwardingWorkers(workload, speeds, router) if router.forwards else FifoWorkers(workload, speeds)
    samples_of = QueueSampler(workers, workload, choose_marks(len(workload), check_integer("samples", samples, 1)))
    controller, transit, ends = router.controller(), None, list[int]()
    feedback = feedback or FeedbackTiming()
    if controller is None:
        if router.batched:
            ends = _find_batch_ends(workload, feedback.interval, batch)
        for start, stop in pairwise([0, *(ends or [len(workload)])]):
            senders.route(start, stop, workers.assigned)
            samples_of.serve(start, stop, float("inf"))
    else:
        loop = FeedbackLoop(lambda _: router, router.workers, controller=controller)
        transit = FeedbackChannel(loop, PlanState(router.workers), feedback.delay)
        _run_intervals(workload, senders, workers, samples_of, transit, feedback)
    sampled = samples_of.marks, samples_of.waiting
    return compute_outcome(workload, senders, sources, workers, transit, *sampled, window, ends)


def _find_batch_ends(workload: Workload, interval: float, batch: int | None) -> list[int]:
    """The ends of non-empty batches of ``interval`` (ms), from the first arrival on."""
    if batch is not None:
        return [*range(batch, len(workload), batch), len(workload)]
    which = ((workload.arrivals - workload.arrivals[0]) // interval).astype(np.int64)
    return [*(np.flatnonzero(np.diff(which)) + 1).tolist(), len(workload)]


class QueueSampler:
    """Lets the workers serve, and samples their queues after the numbers of tuples in ``marks``."""

    def __init__(self, workers: FifoWorkers, workload: Workload, marks: NDArray[np.int64]) -> None:
        self.marks = marks
        self.waiting = np.zeros((len(marks), workers.count), np.int64)
        self._workers, self._workload, self._taken = workers, workload, 0

    def serve(self, start: int, stop: int, until: float) -> None:
        """Let the workers take the tuples [start, stop) and serve up to ``until`` (ms)."""
        while self._taken < len(self.marks) and self.marks[self._taken] <= stop:
            mark = int(self.marks[self._taken])
            now = float(self._workload.arrivals[mark - 1])
            self._workers.serve(start, mark, now)
            self.waiting[self._taken] = self._workers.waiting(now)
            self._taken += 1
            start = mark
        self._workers.serve(start, stop, until)


def _run_intervals(
    workload: Workload,
    senders: Sources,
    workers: FifoWorkers,
    samples: QueueSampler,
    transit: FeedbackChannel,
    feedback: FeedbackTiming,
) -> None:
    """Interval by interval: adopt, route, serve, report."""
    router, interval = senders.routers[0], feedback.interval
    monitors = [monitor for _ in range(router.workers) if (monitor := router.monitor()) is not None]
    substreams = Substreams(workload.keys)
    now, start, number = float(workload.arrivals[0]), 0, 0
    while start < len(workload) or not workers.is_final():
        if plans := transit.take_up(now, senders.routers):
            workers.on_plan(router, start)
            workers.occupy(now, feedback.transfer * sum_transfers(plans, router.workers))
        end = now + interval
        if start < len(workload) and workers.is_final() and not transit.pending:
            # Nothing happens before the next arrival: skip to its interval.
            end += max(0.0, (workload.arrivals[start] - end) // interval + 1) * interval
        stop = int(np.searchsorted(workload.arrivals, end))
        senders.route(start, stop, workers.assigned)
        samples.serve(start, stop, end)
        ready = end
        if monitors:
            _observe_tuples(monitors, substreams, workers, start, stop)
            ready = max(end, float(workers.finishes[start:stop].max(initial=0.0)))
        reports = {w: report for w, monitor in enumerate(monitors) if (report := monitor.report()) is not None}
        queues = workers.waiting(end).astype(float).tolist()
        transit.report(ready, Interval(number, reports, senders.reports(), stop - start, queues=queues))
        now, start, number = end, stop, number + 1


def _observe_tuples(
    monitors: list[Monitor], substreams: Substreams, workers: FifoWorkers, start: int, stop: int
) -> None:
    """Let each worker's monitor observe its tuples among [start, stop)."""
    here = workers.assigned[start:stop]
    order = start + np.argsort(here, kind="stable")
    ends = np.cumsum(np.bincount(here, minlength=len(monitors)))
    for worker in np.unique(here).tolist():
        which = order[ends[worker - 1] if worker else 0 : ends[worker]]
        monitors[worker].observe(substreams.part(which), workers.services[which])
