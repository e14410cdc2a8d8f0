"""Routing: a grouping inside Spark's tasks, and the packets that it cuts."""
