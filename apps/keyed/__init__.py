"""Keyed works: a state per key, at the workers to which the grouping sends the key.

From the inside out: ``store`` has the buckets of states, as blobs; ``table`` is the states of a worker in their
buckets; ``lifecycle`` calls the user's work, and lets states begin, change, be merged and leave; ``migration`` moves
them to other workers under a plan. ``worker`` and ``merger`` are what an operator does in a batch, by its ``program``;
they send ``parcels``. ``operators`` and ``tasks`` make Spark's operators of them, and ``flow`` the dataflow, for
``keyed_map`` and for ``unskew.apps.topology.dataflow``. ``state_reader`` reads the states of a checkpoint.
"""
