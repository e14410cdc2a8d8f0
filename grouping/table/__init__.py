"""Routing table over a hash function: most keys go home, and a few go where a planned table says.

A scheme is a router (``TableRouter``), a monitor for each worker (``KeyMonitor``) and a controller
(``TableController``), which plans with the scheme's ``place``. All are from Fang et al., *Parallel Stream Processing
Against Workload Skewness and Variance* (2016).
"""

from unskew.grouping.table.llfd import Llfd
from unskew.grouping.table.minmig import MinMig
from unskew.grouping.table.mintable import MinTable
from unskew.grouping.table.mixed import Mixed
from unskew.grouping.table.mixed_bf import MixedBruteForce
from unskew.grouping.table.readj import Readj
from unskew.grouping.table.records import Placement, Records

__all__ = ["Llfd", "MinMig", "MinTable", "Mixed", "MixedBruteForce", "Placement", "Readj", "Records"]
