"""The splitter: a Kafka message → its keys, and its count.

A message that isn't valid for its source type gives one tuple with a null key. The router counts it as rejected. Then
``unskew.apps.aggregator.rejected_messages`` reads it again for the ``reason``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, LongType, StringType, StructType

from unskew.apps.splitter.field_columns import FIRST, LAST, NOW, FieldColumn
from unskew.apps.splitter.json_fields import LONGEST_KEY, MESSAGE, MORE, JsonFields
from unskew.spark.compat import convert_schema_to_spark

_DOCUMENT = "__document"
_END = "the end of the message"
_BY_BROKER = 1  # Kafka's type of a timestamp that is the time of the append

#: Columns with the position of a tuple's message, for rejecting it; the work doesn't see them.
POSITION = ("__partition", "__offset")


def parse_document(value: Column) -> Column:
    """A message as Spark's JSON parser reads it (variant). Null if it isn't one JSON document."""
    text = value.cast("string")
    # The parser stops behind the first value. As the first element of a list, a message must have its end there.
    read = F.try_parse_json(F.concat(F.lit("["), text, F.lit(f',"{_END}"]')))

    def first(elements: Column) -> Column:
        ended = F.try_variant_get(elements, "$[1]", "string") == _END
        last = F.try_variant_get(elements, "$[2]", "variant").isNull()
        return F.when(ended & last, F.try_variant_get(elements, "$[0]", "variant"))

    # A lambda function names its argument three times, and Spark parses once.
    return F.when(F.is_valid_utf8(text), F.get(F.transform(F.array(read), first), F.lit(0)))


def explain_not_json(value: Column) -> Column:
    """Why ``parse_document`` gives nothing for a message (string). It is for those that aren't."""
    begun = F.schema_of_variant(F.try_parse_json(value.cast("string")))
    return F.when(F.startswith(begun, F.lit("OBJECT")), F.lit(MORE)).otherwise(F.lit("not JSON"))


def explain_unreadable(value: Column) -> Column:
    """Why a message of any format isn't text. It is a condition to which a format adds its own reasons by ``when``."""
    return F.when(value.isNull(), F.lit("no value")).when(~F.is_valid_utf8(value.cast("string")), F.lit("not UTF-8"))


@dataclass(frozen=True)
class Splitter:
    """The way in which the messages of one source type are read.

    Attributes
    ----------
    keys : JsonFields, or value → Column
        If it is ``JsonFields``, the router's task reads the key from these fields in Python, because it sees all tuples
        anyway. If it is a function, Spark makes the key of the value: a string, null if there is a ``reason``. If there
        may be ``several`` keys, the function gives the keys (array of string) of the document
        (``parse_document``). If there are ``columns``, it gives a struct of the key and these.
    reason : value → Column
        Why a message isn't valid for the source type (string). Null if it is.
    several : bool
        Whether a message may have several keys, or none.
    columns : tuple of FieldColumn
        Further columns that are read from messages. The messages must then have a column ``NOW``.
    condition : (Column, Column), optional
        A further condition on messages (boolean), and the reason if it isn't met (string).

    A message's *value* is a binary column.

    """

    keys: JsonFields | Callable[[Column], Column]
    reason: Callable[[Column], Column]
    several: bool = False
    columns: tuple[FieldColumn, ...] = ()
    condition: tuple[Column, Column] | None = None

    @property
    def fields(self) -> JsonFields | None:
        """The fields that Python reads of messages that Spark has opened. None: there are none."""
        return self.keys if isinstance(self.keys, JsonFields) else None

    @property
    def has_counts(self) -> bool:
        """Whether messages have a count."""
        return self.fields is not None and self.fields.number is not None

    def open(self, messages: DataFrame, *carry: Column) -> DataFrame:
        """Messages (with a column ``value``) → rows of ``carry``, and of what ``fields`` need, or else of ``key``.

        Beside the key stand the further ``columns``.
        """
        value = F.col("value")
        if isinstance(self.keys, JsonFields):
            batch_time = [F.col(NOW)] if self.columns else []
            return messages.select(*carry, *batch_time, self._if_met(value).alias(MESSAGE))
        if not self.several:
            read = self.keys(value)
            further = [read[column.name].alias(column.name) for column in self.columns]
            key = _drop_long_keys(read["key"] if self.columns else read, value, several=False)
            return messages.select(*carry, *further, self._if_met(key).alias("key"))
        # The document is a column of its own that the keys name twice, so Spark keeps the column and parses once.
        read = messages.withColumn(_DOCUMENT, parse_document(value))
        keys = self._if_met(_drop_long_keys(self.keys(F.col(_DOCUMENT)), value, several=True))
        # A rejected message gives one tuple without a key; a message with an empty list of keys gives none.
        return read.select(*carry, F.explode(F.coalesce(keys, F.array(F.lit(None).cast("string")))).alias("key"))

    def split(self, messages: DataFrame, *carry: Column) -> DataFrame:
        """Messages (with a column ``value``) → a row for each tuple: ``carry``, key, and count if there is one."""
        opened = self.open(messages, *carry)
        if self.fields is None:
            return opened
        schema = opened.drop(MESSAGE, NOW).schema.add("key", StringType())
        if self.has_counts:
            schema = schema.add("count", LongType())
        further = convert_schema_to_spark(pa.schema([(column.name, column.type) for column in self.columns]))
        return opened.mapInArrow(self.fields.rows, StructType([*schema, *further]))

    def rejects(self, value: Column) -> Column:
        """Whether a message is rejected (boolean)."""
        return self.why(value).isNotNull()

    def why(self, value: Column) -> Column:
        """Why a message is rejected (string). Null if it isn't."""
        reason = self.reason(value)
        if not isinstance(self.keys, JsonFields):
            keys = self.keys(parse_document(value) if self.several else value)
            size = _measure_longest(keys["key"] if self.columns else keys, several=self.several)
            said = F.concat(F.lit("the key has "), size, F.lit(f" bytes, not {LONGEST_KEY} at most"))
            reason = F.coalesce(reason, F.when(size > LONGEST_KEY, said))
        return reason if self.condition is None else F.coalesce(reason, F.when(~self.condition[0], self.condition[1]))

    def _if_met(self, column: Column) -> Column:
        """A column of the messages that meet the condition; null for the others."""
        return column if self.condition is None else F.when(self.condition[0], column)


def _measure_longest(keys: Column, *, several: bool) -> Column:
    """The bytes of a message's key, or of the longest of its keys; null if there is none."""
    return F.array_max(F.transform(keys, F.octet_length)) if several else F.octet_length(keys)


def _drop_long_keys(keys: Column, value: Column, *, several: bool) -> Column:
    """The keys of a message; null if one is too long."""
    # No key has four times its message's bytes, so the keys of nearly all messages needn't be measured.
    short = 4 * F.octet_length(value) <= LONGEST_KEY
    return F.when(short | (F.coalesce(_measure_longest(keys, several=several), F.lit(0)) <= LONGEST_KEY), keys)


def apply_to_column(
    function: Callable[[Iterator[pa.Array]], Iterator[pa.Array]], kind: DataType | str, column: Column
) -> Column:
    """A function over a task's Arrow arrays, applied to a column. ``kind`` is the type of its results."""
    # Spark reads the kind of the function from its hints.
    function.__annotations__ = {"batches": Iterator[pa.Array], "return": Iterator[pa.Array]}
    return F.arrow_udf(function, kind)(column)  # pyright: ignore[reportCallIssue, reportArgumentType]


def make_field_splitter(fields: JsonFields) -> Splitter:
    """The splitter of JSON messages whose keys are read in Python. The same reader gives the reasons."""

    def reasons(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for batch in batches:
            yield fields.reasons(batch) if not fields.columns else fields.reasons(*split_batch_time(batch))

    def reason(value: Column) -> Column:
        given = F.struct(value.alias("value"), F.col(NOW)) if fields.columns else value
        return apply_to_column(reasons, "string", given)

    return Splitter(fields, reason, columns=fields.columns)


def split_batch_time(rows: pa.StructArray) -> tuple[pa.Array, int]:
    """The first field of structs whose last one is ``NOW``, and the batch's time (ms)."""
    first, *_, now = rows.flatten()
    return first, now[0].as_py() if len(now) else 0


def reject_times(splitter: Splitter, now: Column, ahead: float | None) -> Splitter:
    """A splitter that also rejects messages because of their time (column ``timestamp``).

    It rejects times before 1970, such as Kafka's −1 for "no time", and times after 9999. With ``ahead`` (s), it also
    rejects times that are further than this after ``now``. By event time, a single such message would close the windows
    of all others. If the broker sets the times (column ``timestampType``), they are the topic's own clock, and none of
    them counts as ahead.
    """
    ms = F.unix_millis("timestamp")
    possible = ms.between(FIRST, LAST)
    reason = F.when(~possible, F.concat(F.lit("timestamp "), ms, F.lit(" ms is not in the years 1970 to 9999")))
    if ahead is None:
        return replace(splitter, condition=(possible, reason))
    bound = F.timestamp_add("MILLISECOND", F.lit(round(1000 * ahead)), now)
    far = F.concat(
        F.lit("timestamp "),
        F.date_format("timestamp", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"),  # our sessions are in UTC
        F.lit(f" is more than {ahead:g} s ahead"),
    )
    met = (F.col("timestampType") == _BY_BROKER) | (F.col("timestamp") <= bound)
    return replace(splitter, condition=(possible & met, reason.otherwise(far)))
