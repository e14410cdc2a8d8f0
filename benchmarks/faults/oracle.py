"""What must become of a message of the country streams, in plain Python: a key, or a reason to reject it.

It is written from what the README and the splitter promise, not from how Spark does it.
"""

import json
import re
from typing import Any

FIELD = "country"
#: The reasons, and how the published ones begin that say more.
REASONS = {
    "no value": r"no value",
    "not UTF-8": r"not UTF-8",
    "not JSON": r"not JSON",
    "no field": rf"no field '{FIELD}'",
    "field of another type": rf"field '{FIELD}' is .*, not STRING",
    "from the future": r"timestamp .* is more than .* ahead",
}
_BLANK = " \t\r\n"
_DEEPEST = 1000  # levels that the JSON parser goes down


class _NotJson(ValueError):
    pass


def read(value: bytes | None, *, future: bool = False) -> tuple[str | None, str | None]:
    """(key, None) of a message that counts, else (None, one of ``REASONS``); ``future``: its time is too far ahead."""
    key, reason = _read(value)
    return (None, "from the future") if future and reason is None else (key, reason)


def reason_of(published: str) -> str:
    """Which of ``REASONS`` a published reason is; itself if none."""
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
    except (ValueError, RecursionError):
        return None, "not JSON"
    if not isinstance(document, dict) or FIELD not in document:
        return None, "no field"
    found = document[FIELD]
    return (found, None) if isinstance(found, str) else (None, "field of another type")


_NUMBER = object()  # whichever


def _parse(text: str) -> Any:
    """The first JSON value of a text: what follows it doesn't matter."""
    text = text.lstrip(_BLANK)
    if _depth(text) > _DEEPEST:
        raise _NotJson
    found, end = _DECODER.raw_decode(text)
    after = text[end : end + 1]
    if found is _NUMBER and after and after not in _BLANK:
        raise _NotJson
    if (found is None or isinstance(found, bool)) and (after.isalnum() or after in ("_", "\x7f")):
        raise _NotJson
    _whole(found)
    return found


def _depth(text: str) -> int:
    """The deepest level of a text's start that looks like JSON."""
    deepest = level = 0
    for mark in re.sub(r'"(?:[^"\\]|\\.)*"', "", text, flags=re.DOTALL):
        level += (mark in "[{") - (mark in "]}")
        deepest = max(deepest, level)
        if level <= 0:
            break
    return deepest


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _NotJson
    return found


def _refuse(_: str) -> Any:
    raise _NotJson


def _number(_: str) -> object:
    return _NUMBER


def _whole(found: Any) -> None:
    """Refuse halves of surrogate pairs anywhere: no UTF-8 has them."""
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
