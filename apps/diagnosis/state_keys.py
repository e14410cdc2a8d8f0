"""Finds the hottest keys in a streaming query's state stores with Spark's state reader."""

from collections.abc import Iterator
from dataclasses import dataclass

import orjson
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, NumericType, StructType

from unskew.apps.diagnosis.stage_tasks import compare_to_median
from unskew.errors import UsageError

_METADATA = ("key", "partition_id")


@dataclass(frozen=True)
class KeyState:
    """A key's state in a store."""

    key: str  #: The key, as JSON.
    partition: int  #: The store's partition.
    entries: int  #: The number of values: rows of a join, elements of a list or map, or 1.
    size: int  #: The bytes of the values as JSON.
    number: float | None  #: The greatest number in the values, such as a count; None if they have none.


@dataclass(frozen=True)
class StoreKeys:
    """A state store and its hottest keys."""

    operator: str  #: Spark's names of the operator, and of the store: the side of a join or the state variable.
    store: str
    keys: int  #: The number of keys with a state.
    partitions: dict[int, int]  #: Partition → the number of its keys, if any.
    hottest: list[KeyState]  #: The keys with the most entries, then the largest, then those with the greatest number.

    @property
    def fullest(self) -> float:
        """The keys of the fullest partition over the median."""
        return compare_to_median([*self.partitions.values()]) if self.partitions else 1.0


def find_hot_states(spark: SparkSession, checkpoint: str, top: int) -> list[StoreKeys]:
    """The hottest ``top`` keys of each state store, as of the last batch.

    Raises ``UsageError`` if the checkpoint has no state that Spark can read, as those of Spark 3.
    """
    # Starts the coordinator of state stores, without which each store logs a stack trace.
    _ = spark.streams.active
    rows = spark.read.format("state-metadata").load(checkpoint).collect()
    stores = {(row["operatorId"], name): (row, options) for row in rows for name, options in _list_stores(row.asDict())}
    if not stores:
        raise UsageError(f"checkpoint {checkpoint!r} has no states; valid: one of a stateful query of Spark 4")
    found = []
    for (_, name), (row, options) in stores.items():
        states = spark.read.format("statestore").options(**options).load(checkpoint)
        found.append(_measure_store(states, row["operatorName"], name, top))
    return found


def _list_stores(row: dict[str, object]) -> Iterator[tuple[str, dict[str, str]]]:
    """(name, options of the state reader) of each of an operator's stores, except those of timers, ``$…``."""
    operator, number = str(row["operatorName"]), {"operatorId": str(row["operatorId"])}
    properties = orjson.loads(str(row.get("operatorProperties") or "{}"))
    if variables := properties.get("stateVariables"):
        names = [each["stateName"] for each in (variables if isinstance(variables, list) else orjson.loads(variables))]
        yield from ((name, {**number, "stateVarName": name}) for name in names if name[0] != "$")
    elif "join" in operator.lower():
        yield from ((side, {**number, "joinSide": side}) for side in ("left", "right"))
    else:
        name = str(row["stateStoreName"])
        yield name, {**number, "storeName": name}


def _measure_store(states: DataFrame, operator: str, name: str, top: int) -> StoreKeys:
    values = F.struct(*_list_values(states.schema))
    numbers = [*_list_numbers(states.schema, "")]
    number = F.greatest(*numbers, F.lit(float("-inf"))) if numbers else F.lit(None).cast("double")
    keys = (
        states.select(
            F.to_json("key").alias("key"),
            "partition_id",
            F.length(F.to_json(values)).alias("size"),
            number.alias("number"),
        )
        .groupBy("key", "partition_id")
        .agg(F.count(F.lit(1)).alias("entries"), F.sum("size").alias("size"), F.max("number").alias("number"))
    )
    keys = keys.cache()
    try:
        partitions = {row["partition_id"]: row["count"] for row in keys.groupBy("partition_id").count().collect()}
        order = [F.desc("entries"), F.desc("size"), F.desc_nulls_last("number"), F.asc("key")]
        hottest = [
            KeyState(row["key"], row["partition_id"], row["entries"], row["size"], row["number"])
            for row in keys.orderBy(*order).limit(top).collect()
        ]
    finally:
        keys.unpersist()
    return StoreKeys(operator, name, sum(partitions.values()), dict(sorted(partitions.items())), hottest)


def _list_values(schema: StructType) -> list[Column]:
    """The columns of the values, those of structs one by one: a join's rows have one more than their schema."""
    columns = []
    for field in schema.fields:
        if field.name not in _METADATA:
            inner = field.dataType.fieldNames() if isinstance(field.dataType, StructType) else []
            columns += [F.col(f"`{field.name}`.`{name}`").alias(f"{field.name}.{name}") for name in inner]
            columns += [] if inner else [F.col(f"`{field.name}`")]
    return columns


def _list_numbers(kind: DataType, path: str) -> Iterator[Column]:
    """The numbers in a state's values, except times."""
    if isinstance(kind, StructType):
        for field in kind.fields:
            if path or field.name not in _METADATA:
                yield from _list_numbers(field.dataType, f"{path}.`{field.name}`".lstrip("."))
    elif isinstance(kind, NumericType) and "timestamp" not in path.lower():
        yield F.col(path).cast("double")
