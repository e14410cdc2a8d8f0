"""Spark's own way, in native expressions only: what ours is compared with."""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from unskew.apps.topology.settings import Settings
from unskew.apps.topology.source import source

#: sourceType → the field of its messages' key.
FIELDS = {"COUNTRY_SKEW_R80": "country", "ZIPF": "key"}


def cut(value: Column, field: str) -> Column:
    """The text of a message's only field, spelled as our producers do; null of any other: the least there is to do."""
    before, after = f'{{"{field}":"'.encode(), b'"}'
    inside = F.substring(value, F.lit(len(before) + 1), F.length(value) - len(before) - len(after))  # pyright: ignore[reportArgumentType]
    marked = F.contains(inside, F.lit(b'"')) | F.contains(inside, F.lit(b"\\"))
    framed = F.startswith(value, F.lit(before)) & F.endswith(value, F.lit(after))
    return F.when(framed & ~marked & F.is_valid_utf8(inside.cast("string")), inside.cast("string"))


def parsed(value: Column, field: str) -> Column:
    """The text of a field by Spark's parser, whatever else the message has: what one would write."""
    return F.from_json(value.cast("string"), f"`{field}` string")[field].alias("key")


def counted(spark: SparkSession, run: Settings, *, parse: bool = False) -> DataFrame:
    """``groupBy(window, key).count()`` of a run's source, whose messages are cut or parsed."""
    key = (parsed if parse else cut)(F.col("value"), FIELDS[run.source_type])
    rows = source(spark, run).select(key.alias("key"), F.current_timestamp().alias("time"))
    kept = rows.where("key is not null").withWatermark("time", "0 seconds")
    return kept.groupBy(F.window("time", f"{run.window} seconds"), "key").count()
