"""Run a grouping on a stream without a cluster: queues, completion times, imbalance, memory, messages.

>>> from unskew.grouping import create, streams
>>> keys = streams.zipf(1.5, 1000).take(0, 20_000)
>>> stream = workload(keys, arrivals_at(0.8, 1.0, 20_000, workers=10))
>>> key, partial = (simulate(lambda: create(name, 10), stream) for name in ("KEY", "PARTIAL_KEY"))
>>> partial.average_imbalance < key.average_imbalance, 1 < partial.replication <= 2
(True, True)
"""

from unskew.grouping.simulator.feedback import Feedback
from unskew.grouping.simulator.outcome import Outcome
from unskew.grouping.simulator.simulation import simulate
from unskew.grouping.simulator.workload import Speeds, Workload, arrivals_at, workload
from unskew.grouping.streams import class_costs

__all__ = ["Feedback", "Outcome", "Speeds", "Workload", "arrivals_at", "class_costs", "simulate", "workload"]
