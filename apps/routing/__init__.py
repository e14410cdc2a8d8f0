"""Routing: a grouping inside Spark's tasks, the packets that it cuts, the plans that it follows, and the reports."""
