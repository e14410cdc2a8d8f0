"""The splitter: Kafka message → keys (and counts), as native Spark expressions.

A message that isn't what its source type promises yields a null key: it takes no part in what follows, the router
counts it, and ``unskew.apps.topology.rejected`` looks it up again with its ``reason``.

The shapes that our producers write, and those that samples of the topic have, are cut out without parsing, several
times as fast; all else is parsed as JSON, once.
(The short ways are lenient in one thing: a raw control character in a text, which JSON forbids, is kept.)
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from unskew.apps.topology.columns import NO_SCHEMAS, Schemas, column
from unskew.apps.topology.formats import hashtags, shaped, text_field
from unskew.apps.topology.reading import Splitter
from unskew.errors import UsageError
from unskew.producers.messages import WIKI_URL

if TYPE_CHECKING:
    from unskew.apps.topology.settings import Settings


def _title(page: Column) -> Column:
    return F.when(F.startswith(page, F.lit(WIKI_URL)), F.substring(page, len(WIKI_URL) + 1, 1 << 30)).otherwise(page)


def _language(lang: Column) -> Column:
    return F.substring_index(lang, ".", 1)


# A JSON text without escapes, a number.
_TEXT, _NUMBER = r'"[^"\\]*"', r"-?\d+"
_KEY, _COUNT = r'"([^"\\]*)"', r"(\d{1,18})"

_COUNTRIES = [*(f"COUNTRY_SKEW_R{percent}" for percent in range(0, 101, 10)), "COUNTRY_HALF_SKEW_R80"]

_SYNTHETIC = ["ZIPF", "DRIFTING_ZIPF", "LN1", "LN2", "POSG_UNIFORM", "POSG_ZIPF", "COLUMN"]

#: sourceType → how its messages are read, by samples of them.
SPLITTERS: dict[str, Callable[..., Splitter]] = {
    **dict.fromkeys(_COUNTRIES, partial(text_field, "country")),
    "TWITTER_TICKER": partial(shaped, rf'^\{{"timestamp":{_NUMBER},"ticker":{_KEY}\}}$', "ticker"),
    "TWITTER_ELECTION": partial(hashtags, "hashtags"),
    "WIKIPEDIA_PAGEVIEWS": partial(shaped, rf'^\{{"timestamp":{_NUMBER},"page":{_KEY}\}}$', "page", rule=_title),
    "WIKIPEDIA_PAGEVIEWS_BY_LANG": partial(
        shaped, rf'^\{{"lang":{_KEY},"page":{_TEXT},"n":{_COUNT},"m":{_NUMBER}\}}$', "lang", "n", _language
    ),
    "WIKIPEDIA_CLICKSTREAM": partial(
        shaped, rf'^\{{"prev":{_TEXT},"curr":{_KEY},"type":{_TEXT},"n":{_COUNT}\}}$', "curr", "n"
    ),
    **dict.fromkeys(_SYNTHETIC, partial(shaped, rf'^\{{"key":{_KEY}(?:,"timestamp":{_NUMBER})?\}}$', "key")),
}


def splitter(
    source_type: str,
    key_field: str | None = None,
    form: str | None = None,
    samples: Sequence[bytes] = (),
    schemas: Schemas = NO_SCHEMAS,
) -> Splitter:
    """The splitter of a source type.

    Parameters
    ----------
    source_type : str
        Any of ``SPLITTERS``.
    key_field, form : str, optional
        COLUMN only: where the key is in the messages of any topic, which are ``json`` (default), ``avro``, ``csv`` or
        ``text``.
    samples : sequence of bytes
        Messages of the topic: those that are like them are read faster, to the same end.
    schemas : Schemas
        Where the schemas of Avro are.

    Raises
    ------
    UsageError
        There is none of that name, or it has no such field or format.

    """
    try:
        found = SPLITTERS[source_type.upper()]
    except KeyError:
        raise UsageError(f"unknown sourceType {source_type!r}; valid: {', '.join(SPLITTERS)}") from None
    if key_field is None and form is None and schemas == NO_SCHEMAS:
        return found(samples=samples)
    if source_type.upper() != "COLUMN":
        raise UsageError(f"--key-field and --format are for sourceType COLUMN, not {source_type}: its messages say it")
    return column(form or "json", key_field, samples, schemas)


def splitter_of(settings: "Settings", samples: Sequence[bytes] = ()) -> Splitter:
    """The splitter of a run; raises ``UsageError`` if there is none."""
    schemas = Schemas(settings.schema, settings.schema_registry)
    return splitter(settings.source_type, settings.key_field, settings.format, samples, schemas)
