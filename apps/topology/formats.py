"""The formats of our datasets' messages: where the key is, and why a message isn't of the format."""

import re
from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F

from unskew.apps.topology.fields import MOST, Fields
from unskew.apps.topology.reading import Splitter, document, unreadable
from unskew.producers.hashtags import ELECTION_DAY, ELECTION_WORDS, LETTERS, MANGLED
from unskew.producers.messages import WIKI_URL


def text_field(name: str, number: str | None = None, rule: Callable[[pa.Array], pa.Array] | None = None) -> Splitter:
    """JSON objects with a text in a field, and perhaps a count in another (see ``Fields``); others don't matter."""
    required = _requires({name: "STRING", **({number: "BIGINT"} if number else {})})

    def reason(value: Column) -> Column:
        if number is None:
            return required(value)
        count = F.try_variant_get(document(value), f"$.{number}", "bigint")
        beyond = F.concat(F.lit("the count is "), count.cast("string"), F.lit(f", not 0 to {MOST}"))
        return F.coalesce(required(value), F.when(~count.between(0, MOST), beyond))

    return Splitter(Fields((name,), number, rule=rule), reason)


def title(pages: pa.Array) -> pa.Array:
    """A page's title by itself, or by its address."""
    return _without(pages, f"^{re.escape(WIKI_URL)}", WIKI_URL)


def language(projects: pa.Array) -> pa.Array:
    """The language of a project, as ``en`` of ``en.m``."""
    return _without(projects, r"(?s)\..*", ".")


def _without(texts: pa.Array, pattern: str, hint: str) -> pa.Array:
    """Texts without what matches; where the hint is in none of them, nothing does."""
    found = pc.call_function("match_substring", [texts], pc.MatchSubstringOptions(hint))
    if not pc.call_function("any", [found]).as_py():
        return texts
    once = pc.ReplaceSubstringOptions(pattern, "", max_replacements=1)
    return pc.call_function("replace_substring_regex", [texts], once)


def hashtags(name: str) -> Splitter:
    """Messages with a list of hashtags, each a key by the rule of ``unskew.producers.hashtags``."""

    def keys(parsed: Column) -> Column:
        right = _kind(parsed, name).isin("ARRAY<STRING>", "ARRAY<VOID>")
        found = F.when(right, F.try_variant_get(parsed, f"$.{name}", "array<string>"))
        return F.transform(F.filter(found, lambda tag: ~F.contains(tag, F.lit(MANGLED))), folded)

    def folded(tag: Column) -> Column:
        plain = F.lower(F.translate(tag, *LETTERS))
        return F.when(plain.rlike("|".join(ELECTION_WORDS)), F.lit(ELECTION_DAY)).otherwise(plain)

    return Splitter(keys, _requires({name: "ARRAY<STRING>"}), several=True)


def _requires(fields: Mapping[str, str]) -> Callable[[Column], Column]:
    """Why a message isn't a JSON object with these fields of these types."""

    def reason(value: Column) -> Column:
        parsed = F.try_parse_json(value.cast("string"))
        wrong = unreadable(value).when(parsed.isNull(), F.lit("not JSON"))
        for name, kind in fields.items():
            field = F.try_variant_get(parsed, f"$.{name}", "variant")
            found = F.schema_of_variant(field)
            # an empty list is a list of anything
            right = found.isin(kind, "ARRAY<VOID>") if kind.startswith("ARRAY") else found == kind
            wrong = wrong.when(field.isNull(), F.lit(f"no field {name!r}")).when(
                ~right, F.concat(F.lit(f"field {name!r} is "), found, F.lit(f", not {kind}"))
            )
        return wrong

    return reason


def _kind(parsed: Column, field: str) -> Column:
    return F.schema_of_variant(F.try_variant_get(parsed, f"$.{field}", "variant"))
