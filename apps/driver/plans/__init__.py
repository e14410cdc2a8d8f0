"""Plans of a batch: who goes where.

* ``feedback_loop``: reports of workers and routers become the plan of the next batches, in a topology; ``plan_service``
  is the same for queries of one's own, whose tasks ask for it.
* ``planner`` is a thread of the driver, for groupings that plan a batch before it is routed (PLANNED): one for all
  sources of a query. It has the replicas, and plans a batch in waves. ``planner_server`` listens; a source's side is in
  ``unskew.apps.router``.
* ``planned_frame`` plans a DataFrame that isn't a stream.
"""
