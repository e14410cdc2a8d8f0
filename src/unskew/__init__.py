"""Spread skewed keys over workers evenly: in PySpark queries, in Kafka producers, or in plain Python.

>>> from unskew import create
>>> create("SHUFFLE", workers=4).route(["tr", "tr", "de"]).tolist()
[0, 1, 2]

This package has what most programs need. Subpackages have the rest: ``unskew.grouping`` the schemes, without Spark,
``unskew.operators`` keyed operators, ``unskew.lookups`` functions for ``balanced_lookup``, ``unskew.apps`` the topology
and its commands; further ``unskew.producers``, ``unskew.dashboards`` and ``unskew.deploy``.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unskew.apps.driver.shipping import ship_to_executors
    from unskew.apps.library.balance import balance, balanced_map
    from unskew.apps.library.balanced_join import balanced_join
    from unskew.apps.library.balanced_lookup import balanced_lookup
    from unskew.apps.library.balanced_write import balanced_write
    from unskew.apps.library.kafka_sink import kafka_sink
    from unskew.apps.library.keyed_map import keyed_map
    from unskew.apps.library.spark_settings import check_session, spark_settings
    from unskew.apps.library.topology import Topology
    from unskew.apps.library.watch import observed, watch
    from unskew.apps.operators.errors import StateFault
    from unskew.apps.operators.interface import KeyedOperator, MergeableOperator
    from unskew.errors import EnvironmentFault, UsageError, UserError
    from unskew.grouping import GROUPINGS, create
    from unskew.producers.partitioning import Partitioner

    __version__: str  #: The version of the installed package.

__all__ = [
    "GROUPINGS",
    "EnvironmentFault",
    "KeyedOperator",
    "MergeableOperator",
    "Partitioner",
    "StateFault",
    "Topology",
    "UsageError",
    "UserError",
    "balance",
    "balanced_join",
    "balanced_lookup",
    "balanced_map",
    "balanced_write",
    "check_session",
    "create",
    "kafka_sink",
    "keyed_map",
    "observed",
    "ship_to_executors",
    "spark_settings",
    "watch",
]

_HOMES = {
    "GROUPINGS": "unskew.grouping",
    "EnvironmentFault": "unskew.errors",
    "MergeableOperator": "unskew.apps.operators.interface",
    "KeyedOperator": "unskew.apps.operators.interface",
    "Partitioner": "unskew.producers.partitioning",
    "StateFault": "unskew.apps.operators.errors",
    "UsageError": "unskew.errors",
    "UserError": "unskew.errors",
    "Topology": "unskew.apps.library.topology",
    "balance": "unskew.apps.library.balance",
    "balanced_join": "unskew.apps.library.balanced_join",
    "balanced_lookup": "unskew.apps.library.balanced_lookup",
    "balanced_map": "unskew.apps.library.balance",
    "balanced_write": "unskew.apps.library.balanced_write",
    "check_session": "unskew.apps.library.spark_settings",
    "create": "unskew.grouping",
    "kafka_sink": "unskew.apps.library.kafka_sink",
    "keyed_map": "unskew.apps.library.keyed_map",
    "observed": "unskew.apps.library.watch",
    "spark_settings": "unskew.apps.library.spark_settings",
    "ship_to_executors": "unskew.apps.driver.shipping",
    "watch": "unskew.apps.library.watch",
}

# The extras with their packages.
_PYSPARK = "unskew[spark], or a pyspark of your own"
_EXTRAS = {
    **dict.fromkeys(
        (
            *("balance", "balanced_join", "balanced_map", "balanced_write", "check_session", "observed"),
            *("ship_to_executors", "spark_settings", "watch"),
        ),
        _PYSPARK,
    ),
    **dict.fromkeys(("balanced_lookup", "keyed_map"), "unskew[spark], or unskew[keyed] and a pyspark of your own"),
    "kafka_sink": "unskew[kafka] and a pyspark",
    "Topology": "unskew[app]",
}


def __getattr__(name: str) -> Any:
    # On demand, because the set-up runs before anything is installed, and groupings work without pyspark.
    from importlib import import_module, metadata

    if name == "__version__":
        try:
            return metadata.version("unskew")
        except metadata.PackageNotFoundError:  # such as a copy sent to an executor
            raise AttributeError("this copy of unskew isn't installed, so that it has no version") from None
    if name not in _HOMES:
        raise AttributeError(f"module 'unskew' has no attribute {name!r}")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if name not in _EXTRAS:
            raise
        raise ImportError(f"unskew.{name} needs the packages of {_EXTRAS[name]}: there is no {error.name}") from error
