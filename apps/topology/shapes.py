"""The shapes that a topic's JSON messages have, learnt from some of them: what has one of them needn't be parsed.

A shape is a message with its values left open: its names, their order and its white space are as they were, so that a
message of the shape is JSON, has no name twice, and has its key where that one had it. What has no such shape (a list
of objects, say), or a key in an odd spelling, is for the parser: a shape that few messages have costs time, and never a
result.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F

#: The names from the outermost object to a value.
_Path: TypeAlias = tuple[str, ...]

# Possessive throughout (++, *+): Java neither goes back nor uses its stack. Numbers are narrower than any parser's.
_SPACE = r"[ \t\r\n]*+"
_PLAIN = r'[^"\\\x00-\x1f]++'
_CHARACTER = "u(?![dD][89a-fA-F])[0-9a-fA-F]{4}"
_PAIR = r"u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_TEXT = rf'"(?>{_PLAIN}|\\(?:["\\/bfnrt]|{_CHARACTER}|{_PAIR}))*+"'
_WHOLE = "(?>0|[1-9][0-9]{0,17}+)"
_NUMBER = rf"-?+{_WHOLE}(?>\.[0-9]{{1,18}}+)?+(?>[eE][+-]?+[0-9]{{1,2}}+)?+"
_SCALAR = rf"(?>{_TEXT}|{_NUMBER}|true|false|null)"
_LIST = rf"\[{_SPACE}(?>{_SCALAR}{_SPACE}(?>,{_SPACE}{_SCALAR}{_SPACE})*+)?+\]"

# Of a key. No escaped backslash, so that each backslash begins an escape, and no pair, so that each is a character.
_KEY_INSIDE = rf'(?>{_PLAIN}|\\(?:["/bfnrt]|{_CHARACTER}))*+'
_KEY_TEXT = f'"({_KEY_INSIDE})"'
_KEY_OTHER = r"(0|-?+[1-9][0-9]{0,17}+|true|false)"
_ESCAPES = {'\\"': '"', "\\/": "/", "\\b": "\b", "\\f": "\f", "\\n": "\n", "\\r": "\r", "\\t": "\t"}
_MARK = "\x01"  # stands in no text of JSON

_TOKEN = re.compile(r'[ \t\r\n]+|"(?:[^"\\]|\\.)*"|[-+.\w]+|[{}\[\]:,]')
_MOST, _LEAST = 3, 0.1  # shapes, and the share of the samples that one must have
_WIDEST = 1000  # names, values and marks of a message: of a shape of more, the pattern is longer than a parser's work


@dataclass(frozen=True)
class Shape:
    """A shape.

    Attributes
    ----------
    pattern : str
        Java's regular expression of a whole message.
    key, number : int
        The groups of the key, as it is spelled, and of the count; 0 where there is none.

    """

    pattern: str
    key: int = 1
    number: int = 0


def learn(
    samples: Sequence[bytes], key: _Path, *, number: str | None = None, texts: bool = True, known: str = "(?!)"
) -> list[Shape]:
    """The shapes that samples of a topic have, at most three, the commonest first.

    Parameters
    ----------
    samples : sequence of bytes
        Messages.
    key : tuple of str
        The names from the outermost object to the key.
    number : str, optional
        A field of the outermost object with a whole number ≥ 0, the message's count.
    texts : bool
        Whether only texts are keys; else whole numbers and truth values too.
    known : str
        Expression of messages that need no shape.

    """
    unknown = (text for text in map(_decoded, samples) if not re.search(known, text))
    found = Counter(_shape(text, key, number, texts=texts) for text in unknown)
    common = [shape for shape, n in found.most_common() if shape is not None and n >= _LEAST * len(samples)]
    return common[:_MOST]


def fitting(value: Column, shapes: Sequence[Shape], group: str = "key") -> Column:
    """What a group (``key`` or ``number``) of the first shape that fits has caught (string); null if none fits."""
    if not shapes:
        return F.lit(None).cast("string")
    text = value.cast("string")
    # not regexp_extract, which can't tell an empty key from none; all: there is one at most
    caught = (F.get(F.regexp_extract_all(text, F.lit(s.pattern), F.lit(getattr(s, group))), F.lit(0)) for s in shapes)
    return F.when(F.is_valid_utf8(text), F.coalesce(*caught))


def readable(spelled: Column) -> Column:
    """Whether what stands between quotes is a text that ``meant`` can read; else it is for the parser."""
    return F.rlike(spelled, F.lit(f"^{_KEY_INSIDE}\\z"))


def meant(spelled: Column) -> Column:
    """A key by its spelling between the quotes, as the shapes let it through, or ``readable``."""
    before, after = F.substring_index(spelled, "\\", 1), F.substring_index(spelled, "\\", -1)
    lone = F.octet_length(before) + F.octet_length(after) + 1 == F.octet_length(spelled)
    # The usual case on its own: a third of what it takes to do the texts between escapes one by one.
    usual = F.when(lone & F.startswith(after, F.lit("u")), F.concat(before, _character(after, 2)))
    return F.when(F.contains(spelled, F.lit("\\")), F.coalesce(usual, _several(spelled))).otherwise(spelled)


def _several(spelled: Column) -> Column:
    plain = reduce(lambda text, escape: F.replace(text, F.lit(escape[0]), F.lit(escape[1])), _ESCAPES.items(), spelled)
    parts = F.split(F.replace(plain, F.lit("\\u"), F.lit(_MARK)), _MARK)
    return F.array_join(F.transform(parts, lambda part, at: F.when(at == 0, part).otherwise(_character(part, 1))), "")


def _character(text: Column, at: int) -> Column:
    """A text from there on, where four digits are first, of which the character is meant."""
    character = F.decode(F.unhex(F.substring(text, at, 4)), "UTF-16BE")
    return F.concat(character, F.substring(text, at + 4, 1 << 30))


def _decoded(message: bytes) -> str:
    return message.decode("utf-8", "replace")


def _shape(text: str, key: _Path, number: str | None, *, texts: bool) -> Shape | None:
    """The shape of one message; None if it has none."""
    try:
        json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        return None
    spellings = _TOKEN.findall(text)
    if len(spellings) > _WIDEST:
        return None
    pieces: list[str] = []
    caught: list[str] = []  # what the groups are of
    path: list[str] = []  # of each open object, the name of the value that comes
    at = 0
    while at < len(spellings):
        spelled, at = spellings[at], at + 1
        if spelled == "[":
            end = _end_of_list(spellings, at)
            if end is None or tuple(path) == key:
                return None
            at = end
            pieces.append(_LIST)
        elif spelled in "{}:," or spelled.isspace():
            path = [*path, ""] if spelled == "{" else path[:-1] if spelled == "}" else path
            pieces.append(re.escape(spelled))
        elif _names(spellings, at):
            if "\\" in spelled:
                return None
            path[-1] = json.loads(spelled)
            pieces.append(re.escape(spelled))
        else:
            role = "key" if tuple(path) == key else "number" if tuple(path) == (number,) else ""
            caught += [role] if role else []
            pieces.append(_value(spelled, role))
    if sorted(caught) != (["key"] if number is None else ["key", "number"]) or (texts and _KEY_OTHER in pieces):
        return None
    return Shape("^" + "".join(pieces) + r"\z", **{role: caught.index(role) + 1 for role in caught})


def _value(spelled: str, role: str) -> str:
    """What a value like this one is matched by."""
    if role == "key":
        return _KEY_TEXT if spelled[0] == '"' else _KEY_OTHER
    return f"({_WHOLE})" if role == "number" else _SCALAR


def _names(spellings: Sequence[str], at: int) -> bool:
    """Whether what is before ``at`` is a name: a colon comes."""
    return "".join(spellings[at : at + 2]).lstrip().startswith(":")


def _end_of_list(spellings: Sequence[str], at: int) -> int | None:
    """Where a list that has begun is over; None if anything but texts, numbers and the like is in it."""
    end = spellings.index("]", at)
    return None if {"[", "{"} & set(spellings[at:end]) else end + 1


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names differ."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name twice: which of the two?")
    return found
