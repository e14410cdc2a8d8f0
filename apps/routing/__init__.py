"""Routing: a grouping inside Spark's tasks, the packets that it cuts, and the plans that it follows."""
