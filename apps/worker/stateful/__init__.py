"""Runs keyed operators, with a state per key at the workers to which the grouping sends it.

From the inside out:

* ``store`` keeps buckets of states, as blobs. ``table`` has a worker's states in buckets.
* ``lifecycle`` calls the user's operator to create, update, merge and close states. ``migration`` moves states to other
  workers under a plan.
* ``worker`` and ``merger`` execute a batch in Spark's operators, according to ``config``; ``operator_output`` is what
  they send.
* ``operator`` and ``tasks`` turn them into Spark's operators.
* ``flow`` builds the dataflow for ``keyed_map``, and ``stage`` for the topology.
* ``state_reader`` reads the states of a checkpoint.
"""
