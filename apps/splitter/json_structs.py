"""A decoder of a few fields of JSON objects, which checks all others and makes nothing of them.

``msgspec`` decodes a message into a struct of the fields, several times as fast as into a dict of everything. It reads
the whole message and refuses what isn't JSON, but for two things. It keeps the last value of a name that stands twice,
and it doesn't decode the texts that it skips. So the decoder looks for both itself, and settles only messages of which
it is sure.
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter
from secrets import token_hex
from typing import Any, TypeAlias

import msgspec
import orjson

#: The value of every path in a message whose outermost field is null.
NOTHING: Any = object()

#: Fields by their names: those of an object below, or None for a value.
_Tree: TypeAlias = dict[str, "_Tree | None"]
#: A name, without a quote in it, that has an escape which needn't be one; or a text that looks like it.
_ESCAPED_NAME = re.compile(rb'\\[u/][^"]*"[ \t\r\n]*:')
#: What is raised for a message that isn't such an object: the latter two for None, and for a text.
_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError, AttributeError)


@lru_cache(maxsize=64)
def get_decoder(paths: tuple[tuple[str, ...], ...], *, nullable: bool) -> "StructDecoder":
    """The decoder of these paths, which a process makes once: its types cost time, and Python frees them late."""
    return StructDecoder(paths, nullable=nullable)


class StructDecoder:
    """Decodes the values at some paths in messages (bytes or None) that are each one JSON object in UTF-8.

    A value is of Python's type for JSON. Integers may be of any size. If the outermost field of the first path is
    ``nullable`` and null, all values of the message are ``NOTHING``.
    """

    def __init__(self, paths: Sequence[tuple[str, ...]], *, nullable: bool = False) -> None:
        names = Counter[str]()
        tree = _make_tree(paths)
        struct: Any = _make_struct(tree or {}, names, paths[0][0] if nullable else None)
        self._crosses, self._nullable = tree is None, nullable
        self._decode = msgspec.json.Decoder(struct).decode
        self._decode_list = msgspec.json.Decoder(list[struct | str]).decode
        #: How often a message spells each name.
        self._names = [(orjson.dumps(name), times) for name, times in names.items()]
        self._spelled = b"".join(name for name, _ in self._names)
        self._getters = [attrgetter(".".join(_list_attributes(tree, path))) for path in paths if tree]

    def decode(self, body: Any) -> tuple[Any, ...] | None:
        """The values in a message.

        None if it isn't such an object, if a field isn't there, or if it isn't sure that each name of a path stands
        once in its object.
        """
        if self._crosses:
            return None
        try:
            document = self._decode(body)
            if not self._is_sure(body, 1):
                return None
        except _ERRORS:
            return None
        if self._nullable and document.f0 is None:
            return (NOTHING,) * len(self._getters)
        return tuple([get(document) for get in self._getters])

    def decode_all(self, bodies: Sequence[Any]) -> list[list[Any]] | None:
        """The values in n messages, by path: as ``decode`` for each, in a third of the time. None if one has none.

        The messages are decoded as a list that has a random text between two of them. If all these texts are elements
        of the list, no message has reached into the next one.
        """
        if self._crosses:
            return None
        mark = token_hex(16)
        try:
            joined = b'["%s",%s]' % (mark.encode(), (b',"%s",' % mark.encode()).join(bodies))
            found = self._decode_list(joined)
            documents: list[Any] = found[1::2]
            if len(found) != 2 * len(bodies) or found[::2].count(mark) != len(bodies):
                return None
            if not self._is_sure(joined, len(bodies)):
                return None
            if self._nullable:
                return [[NOTHING if each.f0 is None else get(each) for each in documents] for get in self._getters]
            return [[*map(get, documents)] for get in self._getters]
        except _ERRORS:
            return None

    def _is_sure(self, text: bytes, messages: int) -> bool:
        """Whether a text of decoded messages is UTF-8, and surely has no name of a path twice in its object.

        Each message spells each name at least once. Only in escapes could it be spelled in another way.
        """
        if not text.isascii():
            text.decode()
        if b"\\" in text and (b"\\" in self._spelled or _ESCAPED_NAME.search(text)):
            return False
        return all(text.count(name) == times * messages for name, times in self._names)


def _make_tree(paths: Sequence[tuple[str, ...]]) -> _Tree | None:
    """The fields at the ends of paths. None: one path ends where another one leads on."""
    tree: _Tree = {}
    for path in paths:
        below = tree
        for name in path[:-1]:
            further = below.setdefault(name, {})
            if further is None:
                return None
            below = further
        if below.setdefault(path[-1], None) is not None:
            return None
    return tree


def _make_struct(tree: _Tree, names: Counter[str], nullable: str | None) -> type:
    """A struct of the fields, whose attributes are f0, f1, …; counts their names."""
    fields: list[tuple[str, Any, Any]] = []
    for number, (name, below) in enumerate(tree.items()):
        names[name] += 1
        kind: Any = Any if below is None else _make_struct(below, names, None)
        fields.append((f"f{number}", kind | None if name == nullable and below else kind, msgspec.field(name=name)))
    return msgspec.defstruct("Fields", fields, gc=False)


def _list_attributes(tree: _Tree | None, path: tuple[str, ...]) -> list[str]:
    """The attributes that lead to the end of a path."""
    found: list[str] = []
    for name in path:
        assert tree is not None
        found.append(f"f{[*tree].index(name)}")
        tree = tree[name]
    return found
