"""The formats of messages, each with a short way where our producers write it, and why a message isn't of it."""

import re
from collections.abc import Callable, Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from unskew.apps.topology.reading import Splitter, document
from unskew.errors import UsageError
from unskew.producers.hashtags import ELECTION_DAY, ELECTION_WORDS, LETTERS, MANGLED

#: Of the messages of a COLUMN topic.
FORMATS = ("json", "csv", "text")
_FRAME = 5  # bytes
_QUOTING = {"escape": '"'}  # RFC 4180: a quote inside quotes is doubled
_NO_KEY = "^(VOID|ARRAY|OBJECT)"


def text_field(name: str) -> Splitter:
    """Messages ``{"<name>": "<key>"}``; other fields don't matter."""
    befores, after = (f'{{"{name}":"'.encode(), f'{{"{name}": "'.encode()), b'"}'  # ours, Python's json.dumps

    def cut(value: Column, before: bytes) -> Column:
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
        return F.when(plain, text)

    def short(value: Column) -> Column:
        return F.coalesce(*(cut(value, before) for before in befores))

    def key_of(short: Column, document: Column) -> Column:
        return F.coalesce(short, _text(document, name))

    return Splitter(short, key_of, _requires({name: "STRING"}))


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
        Regular expression of the whole message as our producers write it (a space after a colon or a comma, as Python's
        ``json.dumps`` has it, does no harm); group 1 is the key's field, group 2 the ``number``.
    field, number : str
        The field of the key (text), and of the count (a whole number).
    rule : Column → Column
        From the field's text to the key.

    """
    spelled = shape.replace('":', '": ?').replace(',"', ', ?"')

    def cut(value: Column, group: int) -> Column:
        """The group of a message of that shape; null where it is empty or there is none."""
        text = value.cast("string")
        return F.when(F.is_valid_utf8(text), F.nullif(F.regexp_extract(text, spelled, group), F.lit("")))

    def key_of(short: Column, document: Column) -> Column:
        parsed = _text(document, field)
        if number:
            parsed = F.when(_kind(document, number) == "BIGINT", parsed)
        return rule(F.coalesce(short, parsed))

    def count_of(value: Column, document: Column) -> Column:
        return F.coalesce(cut(value, 2).cast("bigint"), F.try_variant_get(document, f"$.{number}", "bigint"))

    reason = _requires({field: "STRING", **({number: "BIGINT"} if number else {})})
    return Splitter(lambda value: cut(value, 1), key_of, reason, count_of if number else None)


def hashtags(name: str) -> Splitter:
    """Messages with a list of hashtags, each a key by the rule of ``unskew.producers.hashtags``."""

    def key_of(_: Column, document: Column) -> Column:
        right = _kind(document, name).isin("ARRAY<STRING>", "ARRAY<VOID>")
        found = F.when(right, F.try_variant_get(document, f"$.{name}", "array<string>"))
        return F.transform(F.filter(found, lambda tag: ~F.contains(tag, F.lit(MANGLED))), folded)

    def folded(tag: Column) -> Column:
        plain = F.lower(F.translate(tag, *LETTERS))
        return F.when(plain.rlike("|".join(ELECTION_WORDS)), F.lit(ELECTION_DAY)).otherwise(plain)

    def short(_: Column) -> Column:
        return F.lit(None).cast("string")

    return Splitter(short, key_of, _requires({name: "ARRAY<STRING>"}), several=True)


def column(form: str, field: str | None) -> Splitter:
    """Messages of any topic: ``json`` keyed by a field, ``csv`` by a column, ``text`` by all of it.

    Parameters
    ----------
    form : str
        One of ``FORMATS``. JSON may have Confluent's framing (a zero byte and a schema's number) before it.
    field : str, optional
        JSON: a field, of nested objects with dots (``user.id``); texts, numbers and truth values are keys. CSV: the
        column's number, from 1. Text has none.

    Raises
    ------
    UsageError
        There is no such format, or the field isn't one of it.

    """
    if form not in FORMATS:
        raise UsageError(f"unknown format {form!r}; valid: {', '.join(FORMATS)}")
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
        raise UsageError(f"--key-field is {field!r}; valid with --format json: a field, as user, user.id")
    return _scalar(str(field))


def _plain(key: Callable[[Column], Column], missing: str) -> Splitter:
    """Messages that need no parser: their key, which is a function of their text, is always cut out."""

    def short(value: Column) -> Column:
        text = value.cast("string")
        return F.when(F.is_valid_utf8(text), key(text))

    def reason(value: Column) -> Column:
        return (
            F.when(value.isNull(), F.lit("no value"))
            .when(~F.is_valid_utf8(value.cast("string")), F.lit("not UTF-8"))
            .when(short(value).isNull(), F.lit(missing))
        )

    return Splitter(short, lambda cut, _: cut, reason)


def _scalar(path: str) -> Splitter:
    """JSON keyed by a field of any depth that is a text, a number or a truth value."""
    inside = "$" + "".join(f"['{name}']" for name in path.split("."))

    def parse(value: Column) -> Column:
        framed = F.startswith(value, F.lit(b"\0"))
        return document(F.when(framed, F.substring(value, _FRAME + 1, 1 << 30)).otherwise(value))

    def kind(parsed: Column) -> Column:
        return F.schema_of_variant(F.try_variant_get(parsed, inside, "variant"))

    def key_of(_: Column, parsed: Column) -> Column:
        return F.when(~kind(parsed).rlike(_NO_KEY), F.try_variant_get(parsed, inside, "string"))

    def reason(value: Column) -> Column:
        parsed = parse(value)
        found = kind(parsed)
        return (
            F.when(value.isNull(), F.lit("no value"))
            .when(~F.is_valid_utf8(value.cast("string")), F.lit("not UTF-8"))
            .when(parsed.isNull(), F.lit("not JSON"))
            .when(found.isNull(), F.lit(f"no field {path!r}"))
            .when(found.rlike(_NO_KEY), F.concat(F.lit(f"field {path!r} is "), found, F.lit(", which is no key")))
        )

    return Splitter(lambda _: F.lit(None).cast("string"), key_of, reason, parse=parse)


def _requires(fields: Mapping[str, str]) -> Callable[[Column], Column]:
    """Why a message isn't a JSON object with these fields of these types."""

    def reason(value: Column) -> Column:
        document = F.try_parse_json(value.cast("string"))
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


def _text(document: Column, field: str) -> Column:
    """The text in a field; null where there is something else (nothing but a text can be cast to binary)."""
    return F.try_variant_get(document, f"$.{field}", "binary").cast("string")


def _kind(document: Column, field: str) -> Column:
    return F.schema_of_variant(F.try_variant_get(document, f"$.{field}", "variant"))
