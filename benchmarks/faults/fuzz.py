"""Messages that are wrong in every way, and some that only look so: from a grammar, and by mutation of valid ones."""

import random
from collections.abc import Callable

from benchmarks.faults.oracle import FIELD
from unskew.producers.generators.country import countries

_NAMES = countries()
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
    """A message as our producers write it."""
    return b'{"%s":"%s"}' % (FIELD.encode(), rng.choice(_NAMES).encode())


def message(rng: random.Random) -> bytes | None:
    """One message: wrong, odd, or, where a mutation hit nothing that matters, valid."""
    if rng.random() < 0.002:
        return None
    return rng.choice((_grammar, _mutated, _mutated))(rng)


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
    """An object that may have the field, right or wrong, more than once, among others."""
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
    """Levels within what a parser goes down, or far beyond."""
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
