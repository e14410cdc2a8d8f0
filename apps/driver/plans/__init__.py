"""Plans batches.

* ``plan_service`` is a thread of the driver that answers sources' requests for plans at the start of a batch.
* ``batch_planner`` answers with the plan state of the feedback loop, in users' queries. ``feedback_loop`` makes it from
  the reports of workers and routers. A topology makes it at the end of a batch.
* ``planner`` answers with quotas, for groupings that plan batches before routing (PLANNED). It has the replicas, and
  plans a batch in waves, for all sources of a query. The sources' side is in ``unskew.apps.router``.
* ``planned_frame`` plans a DataFrame that isn't a stream.
"""
