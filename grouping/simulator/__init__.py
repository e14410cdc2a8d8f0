"""Simulates a grouping on a stream: queues, completion times, imbalance, memory, messages.

>>> from unskew.grouping import create, streams
>>> keys = streams.zipf(1.5, 1000).take(0, 20_000)
>>> stream = make_workload(keys, make_arrivals(0.8, 1.0, 20_000, workers=10))
>>> key, partial = (simulate(lambda: create(name, 10), stream) for name in ("KEY", "PARTIAL_KEY"))
>>> partial.average_imbalance < key.average_imbalance, 1 < partial.replication <= 2
(True, True)
"""

from unskew.grouping.simulator.feedback import FeedbackTiming
from unskew.grouping.simulator.outcome import SimulationOutcome
from unskew.grouping.simulator.simulation import simulate
from unskew.grouping.simulator.workload import Speeds, Workload, make_arrivals, make_workload
from unskew.grouping.streams import class_costs

__all__ = [
    "FeedbackTiming",
    "SimulationOutcome",
    "Speeds",
    "Workload",
    "class_costs",
    "make_arrivals",
    "make_workload",
    "simulate",
]
