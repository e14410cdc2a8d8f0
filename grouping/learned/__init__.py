"""Learned: which of its workers is good for a hot key is learned from what became of earlier tuples."""

from unskew.grouping.learned.dalton import Dalton

__all__ = ["Dalton"]
