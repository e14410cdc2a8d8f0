"""How messages are read: what the splitter knows of a source type."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType

from unskew.apps.topology.fields import MESSAGE, Fields

_DOCUMENT = "__document"


def document(value: Column) -> Column:
    """What Spark's JSON parser makes of a message (variant); null if nothing."""
    text = value.cast("string")
    return F.when(F.is_valid_utf8(text), F.try_parse_json(text))


def unreadable(value: Column) -> Column:
    """Why a message is no text at all, of whatever format; a condition to which a format adds its own by ``when``."""
    return F.when(value.isNull(), F.lit("no value")).when(~F.is_valid_utf8(value.cast("string")), F.lit("not UTF-8"))


@dataclass(frozen=True)
class Splitter:
    """How the messages of one source type are read.

    Attributes
    ----------
    keys : Fields, or value → Column
        Where the key is, for tasks in Python, which have to see all tuples anyway. Else what the key is (string; null
        where there is a ``reason``), or, if there may be ``several``, what the keys are (array of string) of a
        ``document``.
    reason : value → Column
        Why a message isn't of the source type (string); null if it is.
    several : bool
        Whether a message may have several keys, or none.
    fine : (Column, Column), optional
        A condition that messages have to meet, too (boolean), and why they don't (string).

    A message's *value* is a binary column.

    """

    keys: Fields | Callable[[Column], Column]
    reason: Callable[[Column], Column]
    several: bool = False
    fine: tuple[Column, Column] | None = None

    @property
    def fields(self) -> Fields | None:
        """What is left to be read in Python when Spark has ``opened`` the messages; None: nothing."""
        return self.keys if isinstance(self.keys, Fields) else None

    @property
    def counted(self) -> bool:
        """Whether messages say how much they count."""
        return self.fields is not None and self.fields.number is not None

    def opened(self, messages: DataFrame, *carry: Column) -> DataFrame:
        """Messages (with a column ``value``) → rows of ``carry`` and, for ``fields``, ``MESSAGE``; else ``key``."""
        value = F.col("value")
        if isinstance(self.keys, Fields):
            return messages.select(*carry, self._if_fine(value).alias(MESSAGE))
        if not self.several:
            return messages.select(*carry, self._if_fine(self.keys(value)).alias("key"))
        # A step of its own, which Spark doesn't fold into the next if that names the document twice: one parse.
        read = messages.withColumn(_DOCUMENT, document(value))
        keys = self._if_fine(self.keys(F.col(_DOCUMENT)))
        # a rejected message stays, as one tuple without a key; one that has no keys leaves nothing
        return read.select(*carry, F.explode(F.coalesce(keys, F.array(F.lit(None).cast("string")))).alias("key"))

    def split(self, messages: DataFrame, *carry: Column) -> DataFrame:
        """Messages (with a column ``value``) → a row a tuple: ``carry``, key, and count where there is one."""
        opened = self.opened(messages, *carry)
        if self.fields is None:
            return opened
        schema = opened.drop(MESSAGE).schema.add("key", StringType())
        return opened.mapInArrow(self.fields.rows, schema.add("count", LongType()) if self.counted else schema)

    def rejects(self, value: Column) -> Column:
        """Whether a message is rejected (boolean)."""
        if self.several:
            return self.why(value).isNotNull()
        if isinstance(self.keys, Fields):
            return over_arrays(_keyless(self.keys), "boolean", self._if_fine(value))
        return self._if_fine(self.keys(value)).isNull()

    def why(self, value: Column) -> Column:
        """Why a message is rejected (string); null if it isn't."""
        reason = self.reason(value)
        return reason if self.fine is None else F.coalesce(reason, F.when(~self.fine[0], self.fine[1]))

    def _if_fine(self, column: Column) -> Column:
        return column if self.fine is None else F.when(self.fine[0], column)


def over_arrays(function: Callable[[Iterator[pa.Array]], Iterator[pa.Array]], ddl: str, column: Column) -> Column:
    """What a function over a task's Arrow arrays makes of a column, of this type."""
    function.__annotations__ = {"batches": Iterator[pa.Array], "return": Iterator[pa.Array]}  # what Spark goes by
    return F.arrow_udf(function, ddl)(column)  # pyright: ignore[reportCallIssue, reportArgumentType]


def _keyless(fields: Fields) -> Callable[[Iterator[pa.Array]], Iterator[pa.Array]]:
    def keyless(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for messages in batches:
            yield fields.read(messages)[0].is_null()

    return keyless


def bounded(splitter: Splitter, now: Column, ahead: float) -> Splitter:
    """The same, but that a message whose own time (column ``timestamp``) is further on than that (s) is rejected.

    By event time a single one of them would close the windows of all others.
    """
    bound = F.timestamp_add("MILLISECOND", F.lit(round(1000 * ahead)), now)
    said = F.concat(
        F.lit("timestamp "),
        F.date_format("timestamp", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"),  # our sessions are in UTC
        F.lit(f" is more than {ahead:g} s ahead"),
    )
    return replace(splitter, fine=(F.coalesce(F.col("timestamp") <= bound, F.lit(True)), said))
