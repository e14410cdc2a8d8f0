"""Reading what the topology has written: the result topics, as tables or raw."""
