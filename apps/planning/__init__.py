"""One planner for all sources of a query, for groupings that plan a batch before it is routed (PLANNED).

* ``planner`` is a thread of the driver. It has the replicas, and plans a batch in waves.
* ``asking`` is a source's side, in Spark's tasks.
* ``wire`` is how they speak, and ``server`` the thread that listens.
"""
