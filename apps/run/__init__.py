"""A run of the topology: Spark's session, the query from its start to its orderly end, and its listeners."""
