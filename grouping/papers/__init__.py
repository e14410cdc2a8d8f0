"""Schemes that are kept for comparison: the papers' baselines, and what others have improved upon.

Examples
--------
Six keys have 16 tuples. For each scheme: the workers' tuples before a plan and after it, and the tuples of moved keys.

>>> import numpy as np
>>> from unskew.grouping import encode_keys
>>> from unskew.grouping.table import KeyRecords, Mixed
>>> keys = encode_keys(list("aaaaabbbbcccddef"))
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

Six keys have states of unlike size, and two workers have 10 and 18 tuples. All plans balance them. They differ in the
entries of the routing table, and in the size of the states that move; the bounded schemes may have 2 entries:

>>> records = KeyRecords(
...     cost=np.array([5.0, 7, 7, 2, 5, 2]),  # tuples of each key
...     memory=np.array([5.0, 4, 5, 8, 6, 2]),  # the size of its state
...     current=np.array([0, 1, 1, 1, 0, 1], np.int32),  # its worker
...     home=np.array([1, 1, 0, 0, 1, 0], np.int32),  # the hash function's worker
...     count=np.ones(6, np.int64),
...     workers=2,
... )
>>> bounded = Mixed(2, table_max=2), MixedBruteForce(2, table_max=2)
>>> for router in (Llfd(2), MinTable(2), MinMig(2), *bounded, Readj(2)):
...     plan = router.assign(records, limit=14.0)
...     print(router.name, plan.loads().tolist(), plan.table(), plan.migration())
LLFD [14.0, 14.0] 4 17.0
MINTABLE [14.0, 14.0] 2 13.0
MINMIG [14.0, 14.0] 4 11.0
MIXED [14.0, 14.0] 2 19.0
MIXED_BF [14.0, 14.0] 2 12.0
READJ [14.0, 14.0] 3 10.0

"""

from unskew.grouping.papers.dalton import Dalton
from unskew.grouping.papers.dynamic_key_decay import DynamicKeyDecay
from unskew.grouping.papers.full_knowledge import FullKnowledge
from unskew.grouping.papers.holistic import Holistic
from unskew.grouping.papers.llfd import Llfd
from unskew.grouping.papers.minmig import MinMig
from unskew.grouping.papers.mintable import MinTable
from unskew.grouping.papers.mixed_bf import MixedBruteForce
from unskew.grouping.papers.off_greedy import OffGreedy
from unskew.grouping.papers.on_greedy import OnGreedy
from unskew.grouping.papers.porc import Porc
from unskew.grouping.papers.potc import Potc
from unskew.grouping.papers.readj import Readj

__all__ = [
    "Dalton",
    "DynamicKeyDecay",
    "FullKnowledge",
    "Holistic",
    "Llfd",
    "MinMig",
    "MinTable",
    "MixedBruteForce",
    "OffGreedy",
    "OnGreedy",
    "Porc",
    "Potc",
    "Readj",
]
