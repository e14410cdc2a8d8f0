"""POSG: scheduling by sketched execution times. Router, monitor, controller, and the paper's own message machine."""

from unskew.grouping.posg.posg import Posg

__all__ = ["Posg"]
