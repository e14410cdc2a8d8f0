"""Reading what the topology wrote: the result topics, as tables or raw."""
