"""Kernels for the small parts of JSON: texts, escapes, numbers, words, and UTF-8.

Positions are in ``data``; one of -1 says that there is no such thing.
"""

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.compiled import kernel

Bytes = NDArray[np.uint8]

QUOTE, BACKSLASH, MINUS = 34, 92, 45
_PLUS, _DOT, _SLASH, _ZERO, _NINE = 43, 46, 47, 48, 57
_A, _B, _E, _F, _L, _N, _R, _S, _T, _U = (ord(letter) for letter in "abeflnrstu")


@kernel
def blank(data: Bytes, at: int, end: int) -> int:
    """Past white space."""
    while at < end and (data[at] == 32 or data[at] == 10 or data[at] == 13 or data[at] == 9):
        at += 1
    return at


@kernel
def text(data: Bytes, at: int, end: int) -> tuple[int, bool]:
    """Of a text that begins there: where its last quote is, -1 if it is none; whether it has escapes."""
    escaped = False
    if at == end or data[at] != QUOTE:
        return -1, escaped
    at += 1
    while at < end:
        c = data[at]
        if c == QUOTE:
            return at, escaped
        if c == BACKSLASH:
            escaped = True
            at = _escape(data, at + 1, end)
        elif c < 32:
            return -1, escaped
        elif c < 128:
            at += 1
        else:
            at = _wide(data, at, end)
        if at < 0:
            return -1, escaped
    return -1, escaped


@kernel
def _escape(data: Bytes, at: int, end: int) -> int:
    """Past what follows a backslash; -1: it is no escape."""
    if at >= end:
        return -1
    c = data[at]
    if c != _U:
        return at + 1 if meant(c) else -1
    unit = hexadecimal(data, at + 1) if at + 4 < end else -1
    if unit < 0 or 0xDC00 <= unit < 0xE000:
        return -1
    if unit < 0xD800 or unit >= 0xE000:
        return at + 5
    if at + 10 >= end or data[at + 5] != BACKSLASH or data[at + 6] != _U:
        return -1
    second = hexadecimal(data, at + 7)
    return at + 11 if 0xDC00 <= second < 0xE000 else -1


@kernel
def meant(c: int) -> int:
    """The character that a one-letter escape means; 0: it is none."""
    if c in (QUOTE, BACKSLASH, _SLASH):
        return int(c)
    if c == _B:
        return 8
    if c == _F:
        return 12
    if c == _N:
        return 10
    if c == _R:
        return 13
    return 9 if c == _T else 0


@kernel
def hexadecimal(data: Bytes, at: int) -> int:
    """The number of four hexadecimal digits; -1 if they aren't."""
    found = 0
    for place in range(at, at + 4):
        c = data[place]
        small = c | 32
        if _ZERO <= c <= _NINE:
            found = 16 * found + c - _ZERO
        elif _A <= small <= _F:
            found = 16 * found + small - _A + 10
        else:
            return -1
    return found


@kernel
def _wide(data: Bytes, at: int, end: int) -> int:
    """Past a character of several bytes (Unicode, table 3-7); -1: it is none."""
    c = data[at]
    if c < 0xC2 or c > 0xF4:
        return -1
    length = 2 if c < 0xE0 else 3 if c < 0xF0 else 4
    if at + length > end:
        return -1
    second = data[at + 1]
    least = 0xA0 if c == 0xE0 else 0x90 if c == 0xF0 else 0x80
    most = 0x9F if c == 0xED else 0x8F if c == 0xF4 else 0xBF
    if second < least or second > most:
        return -1
    for place in range(at + 2, at + length):
        if data[place] & 0xC0 != 0x80:
            return -1
    return at + length


@kernel
def rest(data: Bytes, at: int, end: int) -> int:
    """The end, if what is left is UTF-8; else -1."""
    while 0 <= at < end:
        at = at + 1 if data[at] < 128 else _wide(data, at, end)
    return at


@kernel
def word(data: Bytes, at: int, end: int) -> int:
    """Past ``true``, ``false`` or ``null``; -1: it is none of them."""
    c = data[at]
    if c == _F and at + 5 <= end and data[at + 1] == _A and data[at + 2] == _L and data[at + 3] == _S:
        return at + 5 if data[at + 4] == _E else -1
    if at + 4 > end:
        return -1
    if c == _T and data[at + 1] == _R and data[at + 2] == _U and data[at + 3] == _E:
        return at + 4
    return at + 4 if c == _N and data[at + 1] == _U and data[at + 2] == _L and data[at + 3] == _L else -1


@kernel
def number(data: Bytes, at: int, end: int) -> tuple[int, bool]:
    """Past a number, -1 if it is none; whether it is a whole one, without fraction and exponent."""
    if data[at] == MINUS:
        at += 1
    begin = at
    at = _digits(data, at, end)
    if at < 0 or (data[begin] == _ZERO and at > begin + 1):
        return -1, False
    whole = True
    if at < end and data[at] == _DOT:
        whole = False
        at = _digits(data, at + 1, end)
    if 0 <= at < end and data[at] | 32 == _E:
        whole = False
        at += 1
        if at < end and (data[at] == _PLUS or data[at] == MINUS):
            at += 1
        at = _digits(data, at, end)
    return at, whole


@kernel
def _digits(data: Bytes, at: int, end: int) -> int:
    """Past one digit or more; -1 if there is none."""
    begin = at
    while at < end and _ZERO <= data[at] <= _NINE:
        at += 1
    return at if at > begin else -1


@kernel
def integer(data: Bytes, at: int, end: int) -> int:
    """The whole number that is spelled there; -1 if it is below 0."""
    negative = data[at] == MINUS
    value = 0
    for place in range(at + negative, end):
        value = 10 * value + data[place] - _ZERO
    return -1 if negative and value else value


@kernel
def same(data: Bytes, at: int, end: int, other: Bytes, start: int, stop: int) -> bool:
    """Whether two stretches are alike."""
    if end - at != stop - start:
        return False
    for place in range(end - at):  # noqa: SIM110  no generators in kernels
        if data[at + place] != other[start + place]:
            return False
    return True


@kernel
def character(code: int, out: Bytes, to: int) -> int:
    """Write a character as UTF-8; past it."""
    if code < 0x80:
        out[to] = code
        return to + 1
    if code < 0x800:
        out[to] = 0xC0 | code >> 6
    else:
        if code < 0x10000:
            out[to] = 0xE0 | code >> 12
        else:
            out[to] = 0xF0 | code >> 18
            to += 1
            out[to] = 0x80 | code >> 12 & 0x3F
        to += 1
        out[to] = 0x80 | code >> 6 & 0x3F
    out[to + 1] = 0x80 | code & 0x3F
    return to + 2
