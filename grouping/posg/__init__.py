"""POSG: scheduling by sketched execution times. Router, monitor and controller."""

from unskew.grouping.posg.posg import Posg

__all__ = ["Posg"]
