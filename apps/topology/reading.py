"""How messages are read: what the splitter knows of a source type."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_SHORT, _DOCUMENT = "__short", "__document"
#: What a message may count at most: so many of them a window that no sum of int64 overflows have to come first.
MOST = 10**12


def document(value: Column) -> Column:
    """What the JSON parser makes of a message (variant); null if nothing."""
    text = value.cast("string")
    return F.when(F.is_valid_utf8(text), F.try_parse_json(text))


def unreadable(value: Column) -> Column:
    """Why a message is no text at all, of whatever format; a condition to which a format adds its own by ``when``."""
    return F.when(value.isNull(), F.lit("no value")).when(~F.is_valid_utf8(value.cast("string")), F.lit("not UTF-8"))


@dataclass(frozen=True)
class Splitter:
    """How the messages of one source type are read.

    A message's *value* is a binary column; its *document* what the JSON parser made of it (variant; null where it is
    no JSON, or of the short shape, which nobody parses).

    Attributes
    ----------
    short : value → Column
        The key's text in a message of the short shape (string); null in any other.
    key_of : (short, document) → Column
        The message's key (string), or its keys if there may be ``several`` (array of string, perhaps empty); null where
        there is a ``reason``.
    reason : value → Column
        Why a message isn't of the source type (string); null if it is.
    count_of : (value, document) → Column, optional
        How much the message counts (bigint); without it, 1. A message that counts less than 0 or more than ``MOST`` is
        rejected.
    several : bool
        Whether a message may have several keys, or none.
    parse : value → Column
        From a message to its document.

    """

    short: Callable[[Column], Column]
    key_of: Callable[[Column, Column], Column]
    reason: Callable[[Column], Column]
    count_of: Callable[[Column, Column], Column] | None = None
    several: bool = False
    parse: Callable[[Column], Column] = document

    def key(self, value: Column) -> Column:
        """The key, or the keys, by one expression of the message's value."""
        return self._key(self.short(value), self.parse(value), value)

    def why(self, value: Column) -> Column:
        """Why a message is rejected (string); null if it isn't."""
        if self.count_of is None:
            return self.reason(value)
        count = self.count_of(value, self.parse(value))
        beyond = F.concat(F.lit("the count is "), count.cast("string"), F.lit(f", not 0 to {MOST}"))
        return F.coalesce(self.reason(value), F.when(~count.between(0, MOST), beyond))

    def rejects(self, value: Column) -> Column:
        """Whether a message is rejected (boolean)."""
        return self.why(value).isNotNull() if self.several else self.key(value).isNull()

    def split(self, messages: DataFrame, *carry: Column) -> DataFrame:
        """Messages (with a column ``value``) → a row a tuple: key, count where there is one, and ``carry``."""
        value = F.col("value")
        short = self.short(value)
        # A step of its own, which Spark does not fold into the next if that names the document twice: one parse.
        read = messages.withColumns({_SHORT: short, _DOCUMENT: F.when(short.isNull(), self.parse(value))})
        parsed = F.col(_DOCUMENT)
        key = self._key(F.col(_SHORT), parsed, value)
        if self.several:
            # a rejected message stays, as one tuple without a key; one that has no keys leaves nothing
            key = F.explode(F.coalesce(key, F.array(F.lit(None).cast("string"))))
        count = [self.count_of(value, parsed).alias("count")] if self.count_of else []
        return read.select(*carry, *count, key.alias("key"))

    def _key(self, short: Column, parsed: Column, value: Column) -> Column:
        """The key, or the keys; null where the message counts what it can't."""
        key = self.key_of(short, parsed)
        return key if self.count_of is None else F.when(self.count_of(value, parsed).between(0, MOST), key)


def bounded(splitter: Splitter, now: Column, ahead: float) -> Splitter:
    """The same, but that a message whose own time (column ``timestamp``) is further on than that (s) is rejected.

    By event time a single one of them would close the windows of all others.
    """
    bound = F.timestamp_add("MILLISECOND", F.lit(round(1000 * ahead)), now)
    fine = F.coalesce(F.col("timestamp") <= bound, F.lit(True))
    said = F.concat(
        F.lit("timestamp "),
        F.date_format("timestamp", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"),  # our sessions are in UTC
        F.lit(f" is more than {ahead:g} s ahead"),
    )
    return replace(
        splitter,
        key_of=lambda short, parsed: F.when(fine, splitter.key_of(short, parsed)),
        # First, where its key is fine: the short ways take what is no JSON, strictly read.
        reason=lambda value: F.coalesce(F.when(~fine & ~splitter.rejects(value), said), splitter.reason(value)),
    )
