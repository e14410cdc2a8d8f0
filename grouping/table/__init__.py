"""Routing table over a hash function: most keys go home, and a few go where a planned table says.

A scheme is a router (``TableRouter``), a monitor for each worker (``KeyMonitor``) and a controller
(``TableController``), which plans with the scheme's ``assign``. All are from Fang et al., *Parallel Stream Processing
Against Workload Skewness and Variance* (2016).

Examples
--------
Six keys have 16 tuples. For each scheme: the workers' tuples before a plan and after it, and the tuples of moved keys.

>>> import numpy as np
>>> from unskew.grouping import encode
>>> keys = encode(list("aaaaabbbbcccddef"))
>>> for scheme in (Llfd, MinTable, MinMig, Mixed, MixedBruteForce, Readj):
...     router = scheme(2, theta_max=0.0)
...     monitor, controller = router.monitor(), router.controller()
...     monitor.observe(keys, None)
...     before = np.bincount(router.route(keys)).tolist()
...     plan = controller.plan({0: monitor.report()})
...     assert router.adopt(plan)
...     print(scheme.name, before, np.bincount(router.route(keys)).tolist(), plan.values["migration"])
LLFD [1, 15] [8, 8] 9.0
MINTABLE [1, 15] [8, 8] 9.0
MINMIG [1, 15] [8, 8] 9.0
MIXED [1, 15] [8, 8] 9.0
MIXED_BF [1, 15] [8, 8] 9.0
READJ [1, 15] [8, 8] 7.0

"""

from unskew.grouping.table.assignment import Assignment, Records
from unskew.grouping.table.llfd import Llfd
from unskew.grouping.table.minmig import MinMig
from unskew.grouping.table.mintable import MinTable
from unskew.grouping.table.mixed import Mixed
from unskew.grouping.table.mixed_bf import MixedBruteForce
from unskew.grouping.table.readj import Readj

__all__ = ["Assignment", "Llfd", "MinMig", "MinTable", "Mixed", "MixedBruteForce", "Readj", "Records"]
