"""The splitter: Kafka message → keys (and counts), as native Spark expressions.

A message that isn't what its source type promises yields a null key: it takes no part in what follows, the router
counts it, and ``apps.rejected`` looks it up again with its ``reason``.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from deploy.errors import UsageError


@dataclass(frozen=True)
class Splitter:
    """How the messages of one source type are read.

    Attributes
    ----------
    key : Column (binary) → Column (string)
        The message's key; null where there is a ``reason``.
    reason : Column (binary) → Column (string)
        Why a message without a key is rejected.

    """

    key: Callable[[Column], Column]
    reason: Callable[[Column], Column]


def text_field(name: str) -> Splitter:
    """Messages ``{"<name>": "<key>"}``: the key is the text of one field; other fields don't matter.

    The shape that our producers write, ``{"<name>":"<key>"}`` to the byte, is cut out without parsing: three times as
    fast. All else goes through the JSON parser. (The short way is lenient in one thing: a raw control character in
    the text, which JSON forbids, is kept.)
    """
    before, after = f'{{"{name}":"'.encode(), b'"}'

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

    def reason(value: Column) -> Column:
        document = _parsed(value)
        field = F.try_variant_get(document, f"$.{name}", "variant")
        kind = F.schema_of_variant(field)
        return (
            F.when(value.isNull(), F.lit("no value"))
            .when(~F.is_valid_utf8(value.cast("string")), F.lit("not UTF-8"))
            .when(document.isNull(), F.lit("not JSON"))
            .when(field.isNull(), F.lit(f"no field {name!r}"))
            .when(kind != "STRING", F.concat(F.lit(f"field {name!r} is "), kind, F.lit(", not STRING")))
        )

    return Splitter(key, reason)


def _parsed(value: Column) -> Column:
    return F.try_parse_json(value.cast("string"))


_COUNTRIES = [*(f"COUNTRY_SKEW_R{percent}" for percent in range(0, 101, 10)), "COUNTRY_HALF_SKEW_R80"]

#: sourceType → how its messages are read.
SPLITTERS: dict[str, Splitter] = dict.fromkeys(_COUNTRIES, text_field("country"))


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
