"""Finds in event logs or the REST API why Spark tasks are slow, and what would help."""
