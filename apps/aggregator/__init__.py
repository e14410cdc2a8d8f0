"""Merges the workers' counts of closed windows, observes their balance, and publishes them exactly once."""
