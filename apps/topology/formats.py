"""The formats of our datasets' messages, each with short ways to its key, and why a message isn't of it."""

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from unskew.apps.topology.reading import Splitter, unreadable
from unskew.apps.topology.shapes import Shape, fitting, learn, meant, readable
from unskew.producers.hashtags import ELECTION_DAY, ELECTION_WORDS, LETTERS, MANGLED


def text_field(name: str, samples: Sequence[bytes] = ()) -> Splitter:
    """Messages ``{"<name>": "<key>"}``; other fields don't matter. Of ``samples``, shapes are learnt."""
    escapes = any(b"\\" in sample for sample in samples)
    inside = '[^"]*' if escapes else r'[^"\\]*'
    shapes = learn(samples, (name,), known=rf'^\{{"{name}": ?"{inside}"\}}\Z')
    befores, after = (f'{{"{name}":"'.encode(), f'{{"{name}": "'.encode()), b'"}'  # ours, Python's json.dumps

    def cut(value: Column, before: bytes) -> Column:
        inside = F.substring(value, F.lit(len(before) + 1), F.length(value) - len(before) - len(after))  # pyright: ignore[reportArgumentType]
        text = inside.cast("string")
        escaped = F.contains(inside, F.lit(b"\\"))
        short = (
            F.startswith(value, F.lit(before))
            & F.endswith(value, F.lit(after))
            & (F.length(value) >= len(before) + len(after))
            & ~F.contains(inside, F.lit(b'"'))
            & (~escaped | readable(text) if escapes else ~escaped)
            & F.is_valid_utf8(text)
        )
        return F.when(short, text)

    def short(value: Column) -> Column:
        return F.coalesce(*(cut(value, before) for before in befores), fitting(value, shapes))

    def key_of(short: Column, document: Column) -> Column:
        return F.coalesce(meant(short) if shapes or escapes else short, _text(document, name))

    return Splitter(short, key_of, _requires({name: "STRING"}))


def shaped(
    shape: str,
    field: str,
    number: str | None = None,
    rule: Callable[[Column], Column] = lambda key: key,
    samples: Sequence[bytes] = (),
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
    samples : sequence of bytes
        Messages of the topic, whose shapes are learnt.

    """
    spelled = shape.replace('":', '": ?').replace(',"', ', ?"')
    shapes = [Shape(spelled, 1, 2), *learn(samples, (field,), number=number, known=spelled)]

    def key_of(short: Column, document: Column) -> Column:
        parsed = _text(document, field)
        if number:
            parsed = F.when(_kind(document, number) == "BIGINT", parsed)
        return rule(F.coalesce(meant(short) if shapes[1:] else short, parsed))

    def count_of(value: Column, document: Column) -> Column:
        short = fitting(value, shapes, "number").cast("bigint")
        return F.coalesce(short, F.try_variant_get(document, f"$.{number}", "bigint"))

    reason = _requires({field: "STRING", **({number: "BIGINT"} if number else {})})
    return Splitter(lambda value: fitting(value, shapes), key_of, reason, count_of if number else None)


def hashtags(name: str, samples: Sequence[bytes] = ()) -> Splitter:  # noqa: ARG001  no shape has several keys
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


def _requires(fields: Mapping[str, str]) -> Callable[[Column], Column]:
    """Why a message isn't a JSON object with these fields of these types."""

    def reason(value: Column) -> Column:
        document = F.try_parse_json(value.cast("string"))
        wrong = unreadable(value).when(document.isNull(), F.lit("not JSON"))
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
