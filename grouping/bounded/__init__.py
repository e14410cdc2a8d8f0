"""Bounded load: each worker's load is bounded in any stretch of the stream, and keys are split only as needed."""

from unskew.grouping.bounded.bounded_load import BoundedLoad

__all__ = ["BoundedLoad"]
