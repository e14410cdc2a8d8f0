"""The splitter: Kafka message → keys (and counts).

A message that isn't what its source type promises yields a null key: it takes no part in what follows, the router
counts it, and ``unskew.apps.topology.rejected`` looks it up again with its ``reason``.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from unskew.apps.topology.columns import NO_SCHEMAS, Schemas, column
from unskew.apps.topology.formats import hashtags, language, text_field, title
from unskew.apps.topology.reading import Splitter
from unskew.errors import UsageError

if TYPE_CHECKING:
    from unskew.apps.topology.settings import Settings

_COUNTRIES = [*(f"COUNTRY_SKEW_R{percent}" for percent in range(0, 101, 10)), "COUNTRY_HALF_SKEW_R80"]

_SYNTHETIC = ["ZIPF", "DRIFTING_ZIPF", "LN1", "LN2", "POSG_UNIFORM", "POSG_ZIPF", "COLUMN"]

#: sourceType → how its messages are read.
SPLITTERS: dict[str, Callable[[], Splitter]] = {
    **dict.fromkeys(_COUNTRIES, partial(text_field, "country")),
    "TWITTER_TICKER": partial(text_field, "ticker"),
    "TWITTER_ELECTION": partial(hashtags, "hashtags"),
    "WIKIPEDIA_PAGEVIEWS": partial(text_field, "page", rule=title),
    "WIKIPEDIA_PAGEVIEWS_BY_LANG": partial(text_field, "lang", "n", language),
    "WIKIPEDIA_CLICKSTREAM": partial(text_field, "curr", "n"),
    **dict.fromkeys(_SYNTHETIC, partial(text_field, "key")),
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
        Messages of the topic: the schemas of Avro that they name are fetched here.
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
        return found()
    if source_type.upper() != "COLUMN":
        raise UsageError(f"--key-field and --format are for sourceType COLUMN, not {source_type}: its messages say it")
    return column(form or "json", key_field, samples, schemas)


def splitter_of(settings: "Settings", samples: Sequence[bytes] = ()) -> Splitter:
    """The splitter of a run; raises ``UsageError`` if there is none."""
    schemas = Schemas(settings.schema, settings.schema_registry)
    return splitter(settings.source_type, settings.key_field, settings.format, samples, schemas)
