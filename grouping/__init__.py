"""Stream groupings: which of W workers gets a tuple, so that skewed keys don't skew the load.

>>> from unskew.grouping import create
>>> router = create("SHUFFLE", workers=4)
>>> router.route(["tr", "tr", "de"]).tolist()
[0, 1, 2]

This package knows nothing of Spark or Kafka.
"""

from unskew.grouping.interface import Grouping
from unskew.grouping.keys import Keys, encode
from unskew.grouping.registry import GROUPINGS, compile_all, create, named, parameters, standalone, warm, with_sources

__all__ = [
    "GROUPINGS",
    "Grouping",
    "Keys",
    "compile_all",
    "create",
    "encode",
    "named",
    "parameters",
    "standalone",
    "warm",
    "with_sources",
]

if __name__ != "unskew.grouping":  # a second copy of every module would come of it
    raise ImportError(f"{__name__} is imported as unskew.grouping")
