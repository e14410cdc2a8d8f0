"""Kernels that read JSON messages where they lie: where the key is, and what the count is. One pass, nothing built.

What is checked is all of RFC 8259, that no object has a name twice, and that no half of a surrogate pair is escaped. As
Spark's parser has it, what follows a message's first value only has to be UTF-8.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.apps.topology.spelling import (
    BACKSLASH,
    MINUS,
    QUOTE,
    Bytes,
    blank,
    character,
    hexadecimal,
    integer,
    meant,
    number,
    rest,
    same,
    text,
    word,
)
from unskew.grouping.compiled import kernel

Places = NDArray[np.int64]

#: What a message's key is: none; a text as it lies there (or a number or truth value that is written so); a text with
#: escapes; a number that is spelled otherwise than it is written; not known, for the names have escapes or are many.
NONE, PLAIN, ESCAPED, NUMBER, ODD = range(5)
#: Digits of a number that surely is an int64, its sign with them.
DIGITS = 18

_DEEPEST = 1000  # levels, as Spark's parser
_MOST_NAMES = 1000  # of an object, to be compared one by one

_COMMA, _COLON, _OPEN, _CLOSE, _BEGIN, _END = 44, 58, 123, 125, 91, 93
_ZERO, _F, _N, _T, _U = 48, 102, 110, 116, 117
_NOTHING, _VALUE, _AFTER, _NAME_OR_END, _NAME, _VALUE_OR_END = range(6)  # what may come; nothing: it is no JSON


class Wanted(NamedTuple):
    """What is looked for.

    Attributes
    ----------
    names, limits : uint8[], int64[]
        Name j is ``names[limits[j]:limits[j + 1]]``: those from the outermost object to the key, and then perhaps that
        of the count, in the outermost object.
    levels : int
        How many names lead to the key.
    scalars : bool
        Whether numbers and truth values are keys, too.

    """

    names: Bytes
    limits: Places
    levels: int
    scalars: bool


class Found(NamedTuple):
    """Of n messages: where each key lies (int64[n]), what it is (int8[n]); the count (int64[n]), -1 where is none."""

    begins: Places
    ends: Places
    kinds: NDArray[np.int8]
    counts: Places


@kernel
def scan(  # noqa: C901, PLR0912, PLR0915  one automaton, written out: calls would count references to each array
    data: Bytes, heads: Places, tails: Places, wanted: Wanted, found: Found
) -> None:
    """Read n messages, of which message i is ``data[heads[i]:tails[i]]``, into ``found``."""
    names, limits, levels, scalars = wanted
    begins, ends, kinds, counts = found
    numbered = len(limits) > levels + 1
    # Of each open level: whether it is an object, whether the key may be within, its first name.
    objects, leading = np.empty(_DEEPEST + 1, np.bool_), np.empty(_DEEPEST + 1, np.bool_)
    first = np.empty(_DEEPEST + 1, np.int64)
    longest = np.int64(0)
    for i in range(len(heads)):
        longest = max(longest, tails[i] - heads[i])
    # Where names lie; one and its value are four bytes, at least.
    starts, stops = np.empty(longest // 4 + 1, np.int64), np.empty(longest // 4 + 1, np.int64)
    for i in range(len(heads)):
        end = tails[i]
        at = blank(data, heads[i], end)
        kind, count, odd = NONE, np.int64(-1), False
        hit = counted = False  # the last name was the key's or on the way there, the count's
        depth = met = 0
        coming = _VALUE if at < end and data[at] == _OPEN else _NOTHING
        while coming != _NOTHING:
            at = blank(data, at, end)
            c = data[at] if at < end else 0
            if coming == _AFTER and c == _COMMA:
                coming = _NAME if objects[depth] else _VALUE
                at += 1
            elif coming == _AFTER:
                met = first[depth]
                coming = _AFTER if c == (_CLOSE if objects[depth] else _END) else _NOTHING
                depth -= 1
                at += 1
                if depth == 0:
                    break
            elif (c == _CLOSE and coming == _NAME_OR_END) or (c == _END and coming == _VALUE_OR_END):
                coming = _AFTER  # the same mark again, as an end
            elif coming in (_NAME, _NAME_OR_END):
                stop, escaped = text(data, at, end)
                starts[met], stops[met] = at + 1, stop
                odd = odd or escaped or met - first[depth] >= _MOST_NAMES
                again = not odd and _among(data, starts, stops, first[depth], met)
                hit = leading[depth] and same(data, at + 1, stop, names, limits[depth - 1], limits[depth])
                if numbered:
                    counted = depth == 1 and same(data, at + 1, stop, names, limits[levels], limits[levels + 1])
                met += 1
                at = blank(data, stop + 1, end)
                coming = _VALUE if stop >= 0 and not again and at < end and data[at] == _COLON else _NOTHING
                at += 1
            elif c in (_OPEN, _BEGIN):
                leads = depth == 0 or (hit and c == _OPEN and depth < levels)
                depth += 1
                coming = _NOTHING if depth > _DEEPEST else _NAME_OR_END if c == _OPEN else _VALUE_OR_END
                if coming != _NOTHING:
                    objects[depth], leading[depth], first[depth] = c == _OPEN, leads, met
                hit = counted = False
                at += 1
            else:
                begin = at
                at, what, whole = _scalar(data, at, end)
                if hit and depth == levels and (c == QUOTE or (scalars and c != _N)):
                    inside = 1 if c == QUOTE else 0
                    kind, begins[i], ends[i] = what, begin + inside, at - inside
                if counted and whole:
                    count = integer(data, begin, at)
                hit = counted = False
                coming = _AFTER if at >= 0 else _NOTHING
        if coming == _NOTHING or rest(data, at, end) < 0 or (numbered and count < 0 and not odd):
            kind = NONE
        elif odd:
            kind = ODD
        kinds[i], counts[i] = kind, count


@kernel
def _scalar(data: Bytes, at: int, end: int) -> tuple[int, int, bool]:
    """Past a text, a word or a number (-1: none of them); what it is as a key; whether it is a small whole number."""
    if at == end:
        return -1, NONE, False
    c = data[at]
    if c == QUOTE:
        stop, escaped = text(data, at, end)
        return (stop + 1 if stop >= 0 else -1), (ESCAPED if escaped else PLAIN), False
    if c in (_T, _F, _N):
        return word(data, at, end), PLAIN, False
    past, whole = number(data, at, end)
    whole = whole and past - at <= DIGITS
    minus_zero = past > at + 1 and c == MINUS and data[at + 1] == _ZERO
    return past, PLAIN if whole and not minus_zero else NUMBER, whole


@kernel
def _among(data: Bytes, starts: Places, stops: Places, first: int, last: int) -> bool:
    """Whether the last of an object's names is one of those before it."""
    for other in range(first, last):  # noqa: SIM110  no generators in kernels
        if same(data, starts[last], stops[last], data, starts[other], stops[other]):
            return True
    return False


@kernel
def gather(data: Bytes, found: Found, out: Bytes, bounds: Places) -> int:
    """Write the keys one after the other, their escapes decoded; ``bounds`` (int64[n + 1]) says where. Their length."""
    to = 0
    bounds[0] = 0
    for i in range(len(found.kinds)):
        at, end = found.begins[i], found.ends[i]
        if found.kinds[i] == PLAIN:
            out[to : to + end - at] = data[at:end]
            to += end - at
        elif found.kinds[i] == ESCAPED:
            to = _decoded(data, at, end, out, to)
        bounds[i + 1] = to
    return to


@kernel
def _decoded(data: Bytes, at: int, end: int, out: Bytes, to: int) -> int:
    """Write a text without its escapes from ``to`` on; past it."""
    while at < end:
        if data[at] != BACKSLASH:
            out[to] = data[at]
            at, to = at + 1, to + 1
        elif data[at + 1] != _U:
            out[to] = meant(data[at + 1])
            at, to = at + 2, to + 1
        else:
            code = hexadecimal(data, at + 2)
            at += 6
            if 0xD800 <= code < 0xDC00:
                code = 0x10000 + ((code - 0xD800) << 10) + hexadecimal(data, at + 2) - 0xDC00
                at += 6
            to = character(code, out, to)
    return to
