"""A ring of tokens whose shares change when a worker falls behind."""

from grouping.ring.router import ConsistentHash

__all__ = ["ConsistentHash"]
