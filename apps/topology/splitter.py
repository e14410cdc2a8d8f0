"""The splitter: Kafka message → keys (and counts), as native Spark expressions.

A message that isn't what its source type promises yields a null key: it takes no part in what follows, the router
counts it, and ``unskew.apps.topology.rejected`` looks it up again with its ``reason``.

The shapes that our producers write are cut out without parsing, several times as fast; all else goes through the JSON
parser. (The short ways are lenient in one thing: a raw control character in a text, which JSON forbids, is kept.)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from unskew.errors import UsageError
from unskew.producers.hashtags import ELECTION_DAY, ELECTION_WORDS, LETTERS, MANGLED
from unskew.producers.messages import WIKI_URL


@dataclass(frozen=True)
class Splitter:
    """How the messages of one source type are read; all functions take the message's value (a binary column).

    Attributes
    ----------
    key : Column → Column
        The message's key (string), or its keys if there may be ``several`` (array of string, perhaps empty); null where
        there is a ``reason``.
    reason : Column → Column
        Why a message is rejected (string); null if it isn't.
    count : Column → Column, optional
        How much the message counts (bigint); without it, 1.
    several : bool
        Whether a message may have several keys, or none.

    """

    key: Callable[[Column], Column]
    reason: Callable[[Column], Column]
    count: Callable[[Column], Column] | None = None
    several: bool = False

    def rejects(self, value: Column) -> Column:
        """Whether a message is rejected (boolean)."""
        return self.reason(value).isNotNull() if self.several else self.key(value).isNull()

    def split(self, messages: DataFrame, *carry: Column) -> DataFrame:
        """Messages (with a column ``value``) → a row a tuple: key, count where there is one, and ``carry``."""
        value = F.col("value")
        key = self.key(value)
        if self.several:
            # a rejected message stays, as one tuple without a key; one that has no keys leaves nothing
            key = F.explode(F.coalesce(key, F.array(F.lit(None).cast("string"))))
        count = [self.count(value).alias("count")] if self.count else []
        return messages.select(*carry, *count, key.alias("key"))


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
        key=lambda value: F.when(fine, splitter.key(value)),
        reason=lambda value: F.coalesce(splitter.reason(value), F.when(~fine, said)),
    )


def text_field(name: str) -> Splitter:
    """Messages ``{"<name>": "<key>"}``; other fields don't matter."""
    before, after = f'{{"{name}":"'.encode(), b'"}'
    reason = _requires({name: "STRING"})

    def key(value: Column) -> Column:
        inside = F.substring(value, F.lit(len(before) + 1), F.length(value) - len(before) - len(after))  # pyright: ignore[reportArgumentType]
        text = inside.cast("string")
        plain = (
            F.startswith(value, F.lit(before))
            & F.endswith(value, F.lit(after))
            & (F.length(value) >= len(before) + len(after))
            & ~F.contains(inside, F.lit(b'"'))
            & ~F.contains(inside, F.lit(b"\\"))
            & F.is_valid_utf8(text)
        )
        parsed = F.when(reason(value).isNull(), F.variant_get(_parsed(value), f"$.{name}", "string"))
        return F.when(plain, text).otherwise(parsed)

    return Splitter(key, reason)


def shaped(
    shape: str,
    field: str,
    number: str | None = None,
    rule: Callable[[Column], Column] = lambda key: key,
) -> Splitter:
    """Messages with several fields, one of them the key.

    Parameters
    ----------
    shape : str
        Regular expression of the whole message as our producers write it; group 1 is the key's field, group 2 the
        ``number``.
    field, number : str
        The field of the key (text), and of the count (a whole number).
    rule : Column → Column
        From the field's text to the key.

    """
    reason = _requires({field: "STRING", **({number: "BIGINT"} if number else {})})

    def cut(value: Column, group: int) -> Column:
        """The group of a message of that shape, else empty."""
        text = value.cast("string")
        return F.when(F.is_valid_utf8(text), F.regexp_extract(text, shape, group)).otherwise("")

    def key(value: Column) -> Column:
        short = cut(value, 1)
        parsed = F.when(reason(value).isNull(), F.variant_get(_parsed(value), f"$.{field}", "string"))
        return rule(F.when(short != "", short).otherwise(parsed))

    def count(value: Column) -> Column:
        short = cut(value, 2)
        parsed = F.when(reason(value).isNull(), F.variant_get(_parsed(value), f"$.{number}", "bigint"))
        return F.when(short != "", short.cast("bigint")).otherwise(parsed)

    return Splitter(key, reason, count if number else None)


def hashtags(name: str) -> Splitter:
    """Messages with a list of hashtags, each a key by the rule of ``unskew.producers.hashtags``."""
    reason = _requires({name: "ARRAY<STRING>"})

    def key(value: Column) -> Column:
        found = F.when(reason(value).isNull(), F.variant_get(_parsed(value), f"$.{name}", "array<string>"))
        return F.transform(F.filter(found, lambda tag: ~F.contains(tag, F.lit(MANGLED))), folded)

    def folded(tag: Column) -> Column:
        plain = F.lower(F.translate(tag, *LETTERS))
        return F.when(plain.rlike("|".join(ELECTION_WORDS)), F.lit(ELECTION_DAY)).otherwise(plain)

    return Splitter(key, reason, several=True)


def _requires(fields: Mapping[str, str]) -> Callable[[Column], Column]:
    """Why a message isn't a JSON object with these fields of these types."""

    def reason(value: Column) -> Column:
        document = _parsed(value)
        wrong = (
            F.when(value.isNull(), F.lit("no value"))
            .when(~F.is_valid_utf8(value.cast("string")), F.lit("not UTF-8"))
            .when(document.isNull(), F.lit("not JSON"))
        )
        for name, kind in fields.items():
            field = F.try_variant_get(document, f"$.{name}", "variant")
            found = F.schema_of_variant(field)
            # an empty list is a list of anything
            right = found.isin(kind, "ARRAY<VOID>") if kind.startswith("ARRAY") else found == kind
            wrong = wrong.when(field.isNull(), F.lit(f"no field {name!r}")).when(
                ~right, F.concat(F.lit(f"field {name!r} is "), found, F.lit(f", not {kind}"))
            )
        return wrong

    return reason


def _parsed(value: Column) -> Column:
    return F.try_parse_json(value.cast("string"))


def _title(page: Column) -> Column:
    return F.when(F.startswith(page, F.lit(WIKI_URL)), F.substring(page, len(WIKI_URL) + 1, 1 << 30)).otherwise(page)


def _language(lang: Column) -> Column:
    return F.substring_index(lang, ".", 1)


# A JSON text without escapes, a number.
_TEXT, _NUMBER = r'"[^"\\]*"', r"-?\d+"
_KEY, _COUNT = r'"([^"\\]*)"', r"(\d{1,18})"

_COUNTRIES = [*(f"COUNTRY_SKEW_R{percent}" for percent in range(0, 101, 10)), "COUNTRY_HALF_SKEW_R80"]

_SYNTHETIC = ["ZIPF", "DRIFTING_ZIPF", "LN1", "LN2", "POSG_UNIFORM", "POSG_ZIPF", "COLUMN"]

#: sourceType → how its messages are read.
SPLITTERS: dict[str, Splitter] = {
    **dict.fromkeys(_COUNTRIES, text_field("country")),
    "TWITTER_TICKER": shaped(rf'^\{{"timestamp":{_NUMBER},"ticker":{_KEY}\}}$', "ticker"),
    "TWITTER_ELECTION": hashtags("hashtags"),
    "WIKIPEDIA_PAGEVIEWS": shaped(rf'^\{{"timestamp":{_NUMBER},"page":{_KEY}\}}$', "page", rule=_title),
    "WIKIPEDIA_PAGEVIEWS_BY_LANG": shaped(
        rf'^\{{"lang":{_KEY},"page":{_TEXT},"n":{_COUNT},"m":{_NUMBER}\}}$', "lang", "n", _language
    ),
    "WIKIPEDIA_CLICKSTREAM": shaped(rf'^\{{"prev":{_TEXT},"curr":{_KEY},"type":{_TEXT},"n":{_COUNT}\}}$', "curr", "n"),
    **dict.fromkeys(_SYNTHETIC, shaped(rf'^\{{"key":{_KEY}(?:,"timestamp":{_NUMBER})?\}}$', "key")),
}


def splitter(source_type: str) -> Splitter:
    """The splitter of a source type.

    Raises
    ------
    UsageError
        There is none of that name.

    """
    try:
        return SPLITTERS[source_type.upper()]
    except KeyError:
        raise UsageError(f"unknown sourceType {source_type!r}; valid: {', '.join(SPLITTERS)}") from None
