"""Spark's own groupBy, in native expressions only: what ours is compared with."""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from evidence.speed.measuring import Batch, into, run_until
from unskew.apps.driver.listeners import follow_progress
from unskew.apps.settings import Settings
from unskew.apps.splitter.formats import get_splitter
from unskew.apps.splitter.kafka_source import read_topic
from unskew.producers.messages import WIKI_URL

#: sourceType → the only field of its messages, the key's.
FIELDS = {"COUNTRY_SKEW_R80": "country", "ZIPF": "key"}


@dataclass(frozen=True)
class _Written:
    """The fields of a message's key and of its count, if it has one, and the rule from the field's text to the key."""

    field: str
    number: str | None = None
    rule: Callable[[Column], Column] = lambda text: text


_WRITTEN = {
    **{source_type: _Written(field) for source_type, field in FIELDS.items()},
    "TWITTER_TICKER": _Written("ticker"),
    "WIKIPEDIA_PAGEVIEWS": _Written("page", rule=lambda page: F.replace(page, F.lit(WIKI_URL), F.lit(""))),
    "WIKIPEDIA_PAGEVIEWS_BY_LANG": _Written("lang", "n", lambda lang: F.substring_index(lang, ".", 1)),
    "WIKIPEDIA_CLICKSTREAM": _Written("curr", "n"),
}


def cut(value: Column, field: str) -> Column:
    """The text of a message's only field, where it is spelled as our producers do; else null.

    This is the least work that finds a key.
    """
    before, after = f'{{"{field}":"'.encode(), b'"}'
    inside = F.substring(value, F.lit(len(before) + 1), F.length(value) - len(before) - len(after))  # pyright: ignore[reportArgumentType]
    marked = F.contains(inside, F.lit(b'"')) | F.contains(inside, F.lit(b"\\"))
    framed = F.startswith(value, F.lit(before)) & F.endswith(value, F.lit(after))
    return F.when(framed & ~marked & F.is_valid_utf8(inside.cast("string")), inside.cast("string"))


def parsed(value: Column, field: str) -> Column:
    """The text of a field by Spark's parser, whatever else the message has: what a user would write."""
    return F.from_json(value.cast("string"), f"`{field}` string")[field].alias("key")


def parsed_tuples(messages: DataFrame, source_type: str) -> DataFrame:
    """A row a tuple, by Spark's parser: its key, and the count if there is one.

    ``messages`` has a column ``value``.
    """
    split = get_splitter(source_type)
    if split.several:  # here ours is Spark's parser, too
        return split.split(messages)
    written = _WRITTEN[source_type]
    if written.number is None:
        return messages.select(written.rule(parsed(F.col("value"), written.field)).alias("key"))
    ddl = f"`{written.field}` string, `{written.number}` bigint"
    read = messages.select(F.from_json(F.col("value").cast("string"), ddl).alias("read")).select("read.*")
    return read.select(written.rule(F.col(written.field)).alias("key"), F.col(written.number).alias("count"))


def counted(spark: SparkSession, run: Settings, *, parse: bool = False, key: Column | None = None) -> DataFrame:
    """``groupBy(window, key).count()`` of a run's source, or the sum of the counts where messages have them.

    Messages are cut, or parsed if ``parse`` says so. A ``key`` of the column ``value`` takes the place of both.
    """
    messages = read_topic(spark, run)
    if key is not None:
        tuples = messages.select(key.alias("key"))
    elif parse:
        tuples = parsed_tuples(messages, run.source_type)
    else:
        tuples = messages.select(cut(F.col("value"), FIELDS[run.source_type]).alias("key"))
    kept = tuples.where("key is not null").withColumn("time", F.current_timestamp()).withWatermark("time", "0 seconds")
    groups = kept.groupBy(F.window("time", f"{run.window} seconds"), "key")
    return groups.agg(F.sum("count").alias("count")) if "count" in tuples.columns else groups.count()


def native(
    spark: SparkSession, run: Settings, records: int, *, parse: bool = False, key: Column | None = None
) -> list[Batch]:
    """Run ``counted`` over so many messages, and throw its results away; its batches.

    Topic, batch size, state store and windows are those of the topology with these settings.
    """
    batches: list[Batch] = []
    counts = counted(spark, run, parse=parse, key=key)
    with follow_progress(spark, "native", into(batches)):
        query = (
            counts.writeStream.queryName("native")
            .option("checkpointLocation", run.checkpoint)
            .trigger(processingTime="1 second")
            .foreachBatch(lambda df, _: df.write.format("noop").mode("overwrite").save())
            .start()
        )
        run_until(query, lambda: sum(batch.messages for batch in batches) >= records)
    return batches
