"""A ring of tokens whose shares change when a worker falls behind."""

from unskew.grouping.ring.router import ConsistentHash

__all__ = ["ConsistentHash"]
