"""The expected result of each message of the country streams, in plain Python, and a fuzzer that makes messages.

A message has a key, or there is a reason to reject it. The rules follow what the README and the splitter promise, not
how Spark parses JSON. The fuzzer makes messages that are invalid in every way, and some that only look invalid. It
makes them from a grammar, and by mutation of valid ones.
"""

import json
import random
import re
from collections.abc import Callable
from typing import Any

from unskew.producers.datasets.country import load_countries

FIELD = "country"
#: Reason to reject a message → the pattern of the published reasons that mean it: some name a type or a time as well.
REASONS = {
    "no value": r"no value",
    "not UTF-8": r"not UTF-8",
    "not JSON": r"not JSON",
    "more than an object": r"not one JSON object: more follows it",
    "no field": rf"no field '{FIELD}'",
    "field twice": rf"field '{FIELD}' is there twice",
    "field of another type": rf"field '{FIELD}' is .*, not STRING",
    "key too long": r"the key has \d+ bytes, not 65536 at most",
    "from the future": r"timestamp .* is more than .* ahead",
}
_LONGEST_KEY = 65_536  # bytes of UTF-8
_BLANK = " \t\r\n"
_DEEPEST = 1000  # levels that the JSON parser goes down


class _NotJson(ValueError):
    pass


class _More(ValueError):
    pass


class _Twice(list[Any]):
    """The values of a name that stands twice."""


def read(value: bytes | None, *, future: bool = False) -> tuple[str | None, str | None]:
    """The expected result of a message: (its key, None), or (None, one of ``REASONS``).

    ``future``: whether the message's time is too far ahead.
    """
    key, reason = _read(value)
    return (None, "from the future") if future and reason is None else (key, reason)


def reason_of(published: str) -> str:
    """The one of ``REASONS`` that a published reason means. If there is none, the published text itself."""
    return next((name for name, shape in REASONS.items() if re.fullmatch(shape, published, re.DOTALL)), published)


def _read(value: bytes | None) -> tuple[str | None, str | None]:
    if value is None:
        return None, "no value"
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None, "not UTF-8"
    try:
        document = _parse(text)
    except (ValueError, RecursionError) as error:
        return None, "more than an object" if isinstance(error, _More) else "not JSON"
    if not isinstance(document, dict) or FIELD not in document:
        return None, "no field"
    found = document[FIELD]
    if not isinstance(found, str):
        return None, "field twice" if isinstance(found, _Twice) else "field of another type"
    return (None, "key too long") if len(found.encode()) > _LONGEST_KEY else (found, None)


_NUMBER = object()  # stands for any number: which one it is doesn't matter


def _parse(text: str) -> Any:
    """The JSON value that a text is."""
    text = text.lstrip(_BLANK)
    if _depth(text) > _DEEPEST:
        raise _NotJson
    found, end = _DECODER.raw_decode(text)
    _whole(found)
    if text[end:].strip(_BLANK):
        raise _More if isinstance(found, dict) else _NotJson
    return found


def _depth(text: str) -> int:
    """How deep the brackets at a text's start are nested, strings left out, until the first one is closed."""
    deepest = level = 0
    if not text.startswith(("[", "{")):
        return 0
    for mark in re.findall(r"[\[\]{}]", re.sub(r'"(?:[^"\\]|\\.)*+"?', "", text, flags=re.DOTALL)):
        level += 1 if mark in "[{" else -1
        deepest = max(deepest, level)
        if level <= 0:
            break
    return deepest


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    names = [name for name, _ in pairs]
    return found | {
        name: _Twice(value for other, value in pairs if other == name) for name in found if names.count(name) > 1
    }


def _refuse(_: str) -> Any:
    raise _NotJson


def _number(_: str) -> object:
    return _NUMBER


def _whole(found: Any) -> None:
    """Refuse half a surrogate pair in any string of the document: UTF-8 can't have it."""
    waiting = [found]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            one.encode()
        elif isinstance(one, dict):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            waiting += one


_DECODER = json.JSONDecoder(object_pairs_hook=_distinct, parse_constant=_refuse, parse_int=_number, parse_float=_number)

_NAMES = load_countries()
_BLANKS = ("", "", "", " ", "  ", "\n", "\t", "\r\n ")
_ESCAPES = (r"\n", r"\"", r"\\", r"\u0041", r"\u00e9", r"\ud83d\ude00", r"\u0000", r"\/")
_BROKEN = (r"\x", r"\ud800", r"\udc00 ", r"\u12", "\\", "\x01", "\n", '"')
_SCALARS = ("null", "true", "false", "0", "-1", "1.5", "1e3", "12345678901234567890", "-0.0", "1E+2", '"x"', '""')
_ODD_SCALARS = ("NaN", "Infinity", "01", "+1", ".5", "1.", "-", "nul", "True", "'a'", "undefined", "0x1", "1_0")
_INTERESTING = (
    b"",
    b"\x00",
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b'"',
    b"\\",
    b"{",
    b"}",
    b",",
    b":",
)


def valid(rng: random.Random) -> bytes:
    """A message as unskew's producers write it."""
    return b'{"%s":"%s"}' % (FIELD.encode(), rng.choice(_NAMES).encode())


def fuzzed(rng: random.Random) -> bytes | None:
    """One message: malformed, unusual, or still valid after a mutation."""
    if rng.random() < 0.002:
        return None
    return rng.choice((_grammar, _mutated, _mutated))(rng)


#: Bytes of a message's value with which a broker still takes it, by its default limit of 1,048,588 for a batch.
LARGEST = 1_048_588 - 200


def large(rng: random.Random, size: int) -> bytes:
    """A valid message of ``size`` bytes."""
    name = rng.choice(_NAMES).encode()
    padding = b"x" * (size - len(b'{"x":"","%s":"%s"}' % (FIELD.encode(), name)))
    return b'{"x":"%s","%s":"%s"}' % (padding, FIELD.encode(), name)


def largest(rng: random.Random) -> bytes:
    """A message near a broker's size limit: valid with a long key, or malformed so that quoting makes it larger."""
    size = LARGEST - rng.choice((0, 1, rng.randrange(LARGEST // 4)))
    return rng.choice((large, _long_key, _long_key, _bytes, _controls, _quotes, _no_field, _other_type))(rng, size)


def _long_key(rng: random.Random, size: int) -> bytes:
    """A valid message with a key of its own, of any length up to the whole message's."""
    frame = b'{"%s":"%s"}' % (FIELD.encode(), b"%s")
    length = min(round(10 ** rng.uniform(3, 6)), size - len(frame))
    name = b"%016x" % rng.getrandbits(64)
    return frame % (name + b"k" * (length - len(name)))


def _bytes(rng: random.Random, size: int) -> bytes:
    return b"\xff" + rng.randbytes(size - 1)


def _controls(_: random.Random, size: int) -> bytes:
    """No JSON; a quoted control character takes six bytes."""
    return b"\x01" * size


def _quotes(_: random.Random, size: int) -> bytes:
    return b'\\"' * (size // 2)


def _no_field(_: random.Random, size: int) -> bytes:
    return b'{"x":"%s"}' % (b"x" * (size - len(b'{"x":""}')))


def _other_type(_: random.Random, size: int) -> bytes:
    frame = b'{"%s":[%s]}' % (FIELD.encode(), b"%s")
    return frame % b",".join([b"1"] * ((size - len(frame)) // 2))


def _grammar(rng: random.Random) -> bytes:
    text = rng.choice((_object, _object, _object, _value, _nested))(rng)
    text = rng.choice(_BLANKS) + text + rng.choice(_BLANKS)
    if rng.random() < 0.05:
        text += rng.choice(("x", "}", "]", ",", text, "null"))
    if rng.random() < 0.03:
        return text.encode(rng.choice(("utf-16", "utf-16-le", "utf-32")))
    if rng.random() < 0.02:
        return b"\xef\xbb\xbf" + text.encode()
    return text.encode(errors="replace")


def _object(rng: random.Random) -> str:
    """An object with other fields, and with the key's field not at all, once or twice, of the right or another type."""
    members = [_member(rng, _name(rng), _value(rng)) for _ in range(rng.randrange(3))]
    for _ in range(rng.choice((0, 1, 1, 1, 1, 2))):
        right = rng.random() < 0.5
        members.append(_member(rng, f'"{FIELD}"', _text(rng) if right else _value(rng)))
    rng.shuffle(members)
    end = rng.choice(("}", "}", "}", "}", "}", ",}", "", "]", "/**/}"))
    return "{" + ",".join(members) + end


def _member(rng: random.Random, name: str, value: str) -> str:
    return f"{rng.choice(_BLANKS)}{name}{rng.choice(_BLANKS)}:{rng.choice(_BLANKS)}{value}"


def _name(rng: random.Random) -> str:
    return rng.choice(('"x"', '"Country"', '"country "', '"coun\\u0074ry"', '""', "country", "'country'", '"y"', "1"))


def _text(rng: random.Random) -> str:
    inside = rng.choice(_NAMES)
    if rng.random() < 0.3:
        at = rng.randrange(len(inside) + 1)
        inside = inside[:at] + rng.choice(_ESCAPES if rng.random() < 0.6 else _BROKEN) + inside[at:]
    return f'"{inside * (1 if rng.random() < 0.998 else 2000)}"'


def _value(rng: random.Random) -> str:
    way = rng.random()
    if way < 0.5:
        return rng.choice(_SCALARS)
    if way < 0.6:
        return rng.choice(_ODD_SCALARS)
    if way < 0.75:
        return _text(rng)
    if way < 0.85:
        return "[" + ",".join(_value(rng) for _ in range(rng.randrange(3))) + "]"
    return _object(rng) if way < 0.9 else str(rng.randrange(-(10**18), 10**18) * rng.choice((1, 10**30)))


def _nested(rng: random.Random) -> str:
    """An object whose nesting is within the levels that a parser goes down, or far beyond them."""
    levels = rng.choice((1, 10, 100, 1500)) if rng.random() < 0.1 else rng.randrange(1, 8)
    inside = "[" * levels + rng.choice(_SCALARS) + "]" * levels
    return f'{{"{FIELD}":"{rng.choice(_NAMES)}","x":{inside}}}'


def _mutated(rng: random.Random) -> bytes:
    found = valid(rng)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        found = rng.choice(_MUTATIONS)(rng, found)
    return found


def _flip(rng: random.Random, found: bytes) -> bytes:
    if not found:
        return found
    at = rng.randrange(len(found))
    return found[:at] + bytes([found[at] ^ 1 << rng.randrange(8)]) + found[at + 1 :]


def _insert(rng: random.Random, found: bytes) -> bytes:
    at = rng.randrange(len(found) + 1)
    return found[:at] + (rng.choice(_INTERESTING) or rng.randbytes(rng.randrange(1, 4))) + found[at:]


def _cut(rng: random.Random, found: bytes) -> bytes:
    a, b = sorted(rng.randrange(len(found) + 1) for _ in range(2))
    return found[:a] + found[b:]


def _truncate(rng: random.Random, found: bytes) -> bytes:
    return found[: rng.randrange(len(found) + 1)]


def _repeat(rng: random.Random, found: bytes) -> bytes:
    a, b = sorted(rng.randrange(len(found) + 1) for _ in range(2))
    return found[:b] + found[a:b] + found[b:]


def _splice(rng: random.Random, found: bytes) -> bytes:
    other = valid(rng)
    return found[: rng.randrange(len(found) + 1)] + other[rng.randrange(len(other) + 1) :]


_MUTATIONS: tuple[Callable[[random.Random, bytes], bytes], ...] = (_flip, _insert, _cut, _truncate, _repeat, _splice)
