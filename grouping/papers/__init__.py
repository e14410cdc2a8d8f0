"""Schemes for comparison: the papers' baselines, and predecessors of others.

Examples
--------
Six keys have 16 tuples. For each scheme: the workers' tuples before a plan and after it, and the tuples of moved keys.

>>> import numpy as np
>>> from unskew.grouping import create, encode_keys
>>> from unskew.grouping.table import KeyRecords
>>> keys = encode_keys(list("aaaaabbbbcccddef"))
>>> for name in ("LLFD", "MINTABLE", "MINMIG", "MIXED", "MIXED_BF", "READJ"):
...     router = create(name, 2, theta_max=0.0)
...     monitor, controller = router.monitor(), router.controller()
...     monitor.observe(keys, None)
...     before = np.bincount(router.route(keys)).tolist()
...     plan = controller.plan({0: monitor.report()})
...     assert router.adopt(plan)
...     print(name, before, np.bincount(router.route(keys)).tolist(), plan.values["migration"])
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
>>> bounded = {"table_max": 2}
>>> given = {"LLFD": {}, "MINTABLE": {}, "MINMIG": {}, "MIXED": bounded, "MIXED_BF": bounded, "READJ": {}}
>>> for name, options in given.items():
...     plan = create(name, 2, **options).assign(records, limit=14.0)
...     print(name, plan.loads().tolist(), plan.table(), plan.migration())
LLFD [14.0, 14.0] 4 17.0
MINTABLE [14.0, 14.0] 2 13.0
MINMIG [14.0, 14.0] 4 11.0
MIXED [14.0, 14.0] 2 19.0
MIXED_BF [14.0, 14.0] 2 12.0
READJ [14.0, 14.0] 3 10.0

"""
