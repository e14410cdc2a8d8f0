"""Closed windows: merged from what the workers counted, observed for balance, and published exactly once."""
