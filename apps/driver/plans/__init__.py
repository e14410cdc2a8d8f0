"""Plans of a batch: who goes where.

* ``plan_service`` is a thread of the driver, which answers the sources that ask for a plan at their batch's beginning.
* ``batch_planner`` answers with the plan state of the feedback loop, in users' queries. ``feedback_loop`` makes
  that from the reports of workers and routers. A topology, which has an end of a batch, makes it there.
* ``planner`` answers with quotas, for groupings that plan a batch before it is routed (PLANNED). It has the replicas,
  and plans a batch in waves, for all sources of a query. A source's side is in ``unskew.apps.router``.
* ``planned_frame`` plans a DataFrame that isn't a stream.
"""
