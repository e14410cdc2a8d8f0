"""Routing tables over a hash function: most keys go home, and a few according to a planned table.

A scheme is a router (``TableRouter``), a monitor for each worker (``KeyMonitor``) and a controller
(``TableController``), which plans with the scheme's ``assign``. All are from Fang et al., *Parallel Stream Processing
Against Workload Skewness and Variance* (2016).
"""

from unskew.grouping.table.assignment import Assignment, KeyRecords
from unskew.grouping.table.mixed import Mixed

__all__ = ["Assignment", "KeyRecords", "Mixed"]
