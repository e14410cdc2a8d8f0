"""The formats of a user's own topic, each with its key where it is said to be, and why a message has none."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column
from pyspark.sql import functions as F

from unskew.apps.topology.avro import Decoder, avro, numbers
from unskew.apps.topology.fields import FRAME, Fields
from unskew.apps.topology.reading import Splitter, document, unreadable
from unskew.apps.topology.registry import Registry, of_file
from unskew.errors import UsageError

#: Of the messages of a COLUMN topic.
FORMATS = ("json", "avro", "csv", "text")
REGISTRY_VARIABLE = "SCHEMA_REGISTRY_URL"
_QUOTING = {"escape": '"'}  # RFC 4180: a quote inside quotes is doubled
_NO_KEY = "^(VOID|ARRAY|OBJECT)"


@dataclass(frozen=True)
class Schemas:
    """Where the schemas of Avro are: a file, or a schema registry's address (else ``$SCHEMA_REGISTRY_URL``)."""

    file: str | None = None
    registry: str | None = field(default=None, repr=False)

    def decoder(self, path: str, samples: Sequence[bytes]) -> Decoder:
        """What reads the messages.

        Raises
        ------
        UsageError
            The file isn't a schema, or the address isn't one.
        EnvironmentFault
            The registry doesn't answer about the samples' schemas.

        """
        address = self.registry or (None if self.file else os.environ.get(REGISTRY_VARIABLE))
        if (self.file is None) == (address is None):
            raise UsageError(
                f"--format avro needs --schema FILE or --schema-registry URL (${REGISTRY_VARIABLE}), not both"
            )
        if self.file is not None:
            return Decoder(path, schema=of_file(self.file))
        return Decoder(path, registry=Registry.at(str(address)).knowing(numbers(samples)))


NO_SCHEMAS = Schemas()


def column(form: str, field: str | None, samples: Sequence[bytes] = (), schemas: Schemas = NO_SCHEMAS) -> Splitter:
    """Messages of any topic: ``json`` and ``avro`` keyed by a field, ``csv`` by a column, ``text`` by all of it.

    Parameters
    ----------
    form : str
        One of ``FORMATS``. JSON may have Confluent's framing (a zero byte and a schema's number) before it.
    field : str, optional
        JSON, Avro: a field, of nested objects with dots (``user.id``); texts, numbers and truth values are keys. CSV:
        the column's number, from 1. Text has none.
    samples : sequence of bytes
        Messages of the topic, whose schemas of Avro are fetched.
    schemas : Schemas
        Of Avro.

    Raises
    ------
    UsageError
        There is no such format, or the field isn't one of it; or no schema for Avro, or one for another format.
    EnvironmentFault
        The schema registry doesn't answer.

    """
    if form not in FORMATS:
        raise UsageError(f"unknown format {form!r}; valid: {', '.join(FORMATS)}")
    if schemas != NO_SCHEMAS and form != "avro":
        raise UsageError(f"--schema and --schema-registry are for --format avro, not {form}")
    if form == "text":
        if field is not None:
            raise UsageError(f"--key-field is {field!r}; valid with --format text: none, the whole text is the key")
        return _plain(lambda text: text, "no text")
    if form == "csv":
        if not re.fullmatch(r"[1-9]\d{0,2}", field or ""):
            raise UsageError(f"--key-field is {field!r}; valid with --format csv: the column's number, from 1 to 999")
        names = [f"c{number}" for number in range(1, int(field or 0) + 1)]
        schema = ", ".join(f"{name} string" for name in names)
        return _plain(lambda text: F.from_csv(text, schema, _QUOTING)[names[-1]], f"nothing in column {field}")
    if not re.fullmatch(r"[^.'\[\]]+(\.[^.'\[\]]+)*", field or ""):
        raise UsageError(f"--key-field is {field!r}; valid with --format {form}: a field, as user, user.id")
    if form == "avro":
        return avro(schemas.decoder(str(field), samples))
    return _scalar(str(field))


def _plain(key: Callable[[Column], Column], missing: str) -> Splitter:
    """Messages that need no parser: their key is a function of their text."""

    def keys(value: Column) -> Column:
        text = value.cast("string")
        return F.when(F.is_valid_utf8(text), key(text))

    def reason(value: Column) -> Column:
        return unreadable(value).when(keys(value).isNull(), F.lit(missing))

    return Splitter(keys, reason)


def _scalar(path: str) -> Splitter:
    """JSON keyed by a field of any depth that is a text, a number or a truth value."""
    names = path.split(".")
    inside = "$" + "".join(f"['{name}']" for name in names)

    def reason(value: Column) -> Column:
        framed = F.startswith(value, F.lit(b"\0"))
        parsed = document(F.when(framed, F.substring(value, FRAME + 1, 1 << 30)).otherwise(value))
        found = F.schema_of_variant(F.try_variant_get(parsed, inside, "variant"))
        return (
            unreadable(value)
            .when(parsed.isNull(), F.lit("not JSON"))
            .when(found.isNull(), F.lit(f"no field {path!r}"))
            .when(found.rlike(_NO_KEY), F.concat(F.lit(f"field {path!r} is "), found, F.lit(", which is no key")))
        )

    return Splitter(Fields(tuple(names), scalars=True, framed=True), reason)
