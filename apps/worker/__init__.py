"""What the workers do with their tuples: count them by window, or keep a state per key (``stateful``)."""
