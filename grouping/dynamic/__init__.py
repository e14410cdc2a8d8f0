"""Dynamic Key Grouping: each key has a pool of workers that grows with its load."""

from unskew.grouping.dynamic.dynamic_key import DynamicKey

__all__ = ["DynamicKey"]
