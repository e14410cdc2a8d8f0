"""Keyed operators: a state per key, at the workers to which the grouping sends the key.

The modules, from the inside out:

* ``store`` keeps buckets of states, as blobs. ``table`` has a worker's states in their buckets.
* ``lifecycle`` calls the user's operator: states begin, change, are merged, and leave. ``migration`` moves states to
  other workers under a plan.
* ``worker`` and ``merger`` are what Spark's operator does in a batch, according to its ``config``; ``operator_output``
  is what they send.
* ``operator`` and ``tasks`` make Spark's operators of them.
* ``flow`` makes the dataflow, for ``keyed_map``, and ``stage`` for the topology.
* ``state_reader`` reads the states of a checkpoint.
"""
