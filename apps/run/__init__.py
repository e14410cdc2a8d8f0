"""A run's life: Spark's session, the query from its start to its orderly end, and what follows it meanwhile."""
