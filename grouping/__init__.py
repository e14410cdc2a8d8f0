"""Stream groupings: which of W workers gets a tuple, so that skewed keys don't skew the load.

>>> from unskew.grouping import create
>>> router = create("SHUFFLE", workers=4)
>>> router.route(["tr", "tr", "de"]).tolist()
[0, 1, 2]

This package doesn't depend on Spark or Kafka.
"""

from unskew.grouping.interface import Grouping
from unskew.grouping.keys import Keys, encode_keys
from unskew.grouping.registry import (
    GROUPINGS,
    add_sources,
    compile_all,
    create,
    create_standalone,
    get_grouping,
    get_parameters,
    warm_kernels,
)

__all__ = [
    "GROUPINGS",
    "Grouping",
    "Keys",
    "add_sources",
    "compile_all",
    "create",
    "create_standalone",
    "encode_keys",
    "get_grouping",
    "get_parameters",
    "warm_kernels",
]

if __name__ != "unskew.grouping":  # or every module would exist twice
    raise ImportError(f"{__name__} is imported as unskew.grouping")
