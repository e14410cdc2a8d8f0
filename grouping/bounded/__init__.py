"""Bounded load: a bound on each worker's load in any stretch of the stream; keys spill over as far as they must."""

from unskew.grouping.bounded.bounded_load import BoundedLoad

__all__ = ["BoundedLoad"]
