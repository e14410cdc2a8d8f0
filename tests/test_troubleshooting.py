"""The page of errors holds what the code says: each end of a run is on the page, and the page invents none.

A message is reduced to its fixed words, with … for each value. The page quotes these words, or a part of them.
"""

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

from tests.pages import PAGES, ROOT

PACKAGE = ROOT / "src" / "unskew"
PAGE = PAGES["docs/troubleshooting.md"]
# By these modules users begin a run; its errors are in the modules that these import.
BEGINNINGS = (
    "apps/commandline/launch.py",
    "apps/compare/command.py",
    "apps/balance.py",
    "apps/keyed/keyed_map.py",
    "apps/kafka_sink.py",
)
ENDS = {"EnvironmentFault", "TakenOver", "WorkFault", "StateFault", "RuntimeError"}
# What is raised in these modules by other commands than a run.
OTHER_COMMANDS = {
    "deploy/kafka/reader.py": "unskew results, unskew simulate",
    "deploy/installation/machine.py:require_disk": "make setup",
    "deploy/installation/machine.py:require_python": "make setup, unskew doctor",
    "deploy/servers/broker.py": "unskew kafka start",
    "deploy/servers/cluster.py": "unskew cluster",
    "deploy/servers/embedded.py:announce": "unskew kafka start",
    "deploy/servers/embedded.py:require_none_other": "unskew kafka start",
    "deploy/servers/influxdb.py": "unskew stack start",
    "deploy/servers/loopback.py": "unskew kafka start, unskew stack start, unskew doctor",
    "deploy/servers/prometheus.py": "unskew stack start",
    "deploy/servers/server.py": "unskew kafka start, unskew stack start",
    "deploy/servers/stack.py": "unskew stack start",
}
# Where a UsageError is about more than the arguments: a checkpoint, a topic, a machine. Others explain themselves.
NOT_ARGUMENTS = (
    "apps/checkpoint/checkpoint.py",
    "apps/checkpoint/visible.py",
    "apps/compare/contest.py",
    "apps/keyed/flow.py",
    "apps/keyed/program.py:Program.require_place",
    "apps/monitoring/outputs.py:Exporter",
    "apps/run/python.py",
    "deploy/kafka/topics.py",
)
GAP = "…"
LEAST = 10  # letters of a quotation; with fewer it could be of anything


class Message(NamedTuple):
    """A message of the code: its kind, where it is made (``file:function``), and its fixed words."""

    kind: str
    place: str
    text: str

    def within(self, places: Collection[str]) -> bool:
        return any(re.match(rf"{re.escape(place)}\b", self.place) for place in places)


@cache
def modules() -> dict[str, ast.Module]:
    """The modules that a run imports, by their path in the package."""
    found: dict[str, ast.Module] = {}
    todo = [PACKAGE / name for name in BEGINNINGS]
    while todo:
        file = todo.pop()
        name = str(file.relative_to(PACKAGE))
        if name not in found:
            found[name] = ast.parse(file.read_text(encoding="utf-8"))
            for node in ast.walk(found[name]):
                if isinstance(node, ast.ImportFrom):
                    todo += [file for alias in node.names for file in files_of(node.module, alias.name)]
    return found


def files_of(module: str | None, name: str) -> list[Path]:
    """The files of our package that ``from module import name`` reads."""
    if module is None or not f"{module}.".startswith("unskew."):
        return []
    path = PACKAGE.joinpath(*module.split(".")[1:])
    tried = [path.with_suffix(".py"), path / "__init__.py", path / f"{name}.py", path / name / "__init__.py"]
    return [file for file in tried if file.is_file()]


class Words:
    """The fixed words of expressions in one function of a module."""

    def __init__(self, module: str, function: ast.AST) -> None:
        self.module = module
        self.scopes = (function, modules()[module])

    def texts(self, node: ast.expr | None, seen: frozenset[str] = frozenset()) -> list[str]:
        """What a text may be, with a gap for each value."""
        match node:
            case ast.Constant(value=str(text)):
                found = [re.sub(r"%(\.\d)?[a-z]", GAP, text)]
            case ast.JoinedStr(values=parts):
                found = self._joined(parts, seen)
            case ast.FormattedValue(value=value):
                found = self.texts(value, seen)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                found = self._joined([left, right], seen)
            case ast.IfExp(body=one, orelse=other):
                found = [*self.texts(one, seen), *self.texts(other, seen)]
            case ast.Name(id=name) if name not in seen:
                found = [text for parts in self.values(name) for text in self._joined(parts, seen | {name})]
            case ast.Call(func=ast.Name(id=name)) if name not in seen:
                found = list(self._returned(name, seen | {name}))
            case _:
                found = []
        return found or [GAP]

    def values(self, name: str) -> list[list[ast.expr]]:
        """What is assigned to a name, each with what is added to it afterwards."""
        for scope in self.scopes:
            values: list[list[ast.expr]] = []
            for node in local(scope):
                match node:
                    case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                        values.append([value])
                    case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=given)):
                        values += [[v] for n, v in zip(names, given, strict=True) if ast.unparse(n) == name]
                    case ast.AugAssign(target=ast.Name(id=target), op=ast.Add(), value=value) if target == name:
                        values[-1].append(value)
            if values:
                return values
        return []

    def _joined(self, parts: Sequence[ast.expr], seen: frozenset[str]) -> list[str]:
        return [re.sub(f"{GAP}+", GAP, "".join(each)) for each in product(*(self.texts(part, seen) for part in parts))]

    def _returned(self, function: str, seen: frozenset[str]) -> Iterator[str]:
        named = [(self.module, function)]
        for node in ast.walk(modules()[self.module]):
            if isinstance(node, ast.ImportFrom) and function in {alias.name for alias in node.names}:
                named += [(str(file.relative_to(PACKAGE)), function) for file in files_of(node.module, function)]
        for module, name in named:
            for node in modules()[module].body:
                if isinstance(node, ast.FunctionDef) and node.name == name:
                    own = Words(module, node)
                    for each in local(node):
                        if isinstance(each, ast.Return):
                            yield from own.texts(each.value, seen)


def local(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function or a module, in order, without those of the functions and classes in it."""
    for node in ast.iter_child_nodes(scope):
        if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            yield node
            yield from local(node)


def functions(scope: ast.AST, name: str = "") -> Iterator[tuple[str, ast.AST]]:
    """A module, and the functions and classes in it, with their names as ``Class.method``."""
    yield name, scope
    for node in defined(scope):
        yield from functions(node, f"{name}.{node.name}".removeprefix("."))


def defined(scope: ast.AST) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node
        else:
            yield from defined(node)


@cache
def kinds() -> set[str]:
    """The classes of messages, with those that are derived from them."""
    found = {*ENDS, "UsageError"}
    for tree in modules().values():
        for node in ast.walk(tree):  # a base class stands before what is derived from it
            if isinstance(node, ast.ClassDef) and found & {ast.unparse(base) for base in node.bases}:
                found.add(node.name)
    return found


@cache
def messages() -> set[Message]:
    """All messages of errors and warnings in the modules of a run."""
    found = {
        Message(kind, f"{module}:{name}", text)
        for module, tree in modules().items()
        for name, function in functions(tree)
        for words in [Words(module, function)]
        for kind, expression in made_in(function, words)
        for text in words.texts(expression)
    }
    return {message for message in found if re.search("[a-z]", message.text)}


def made_in(function: ast.AST, words: Words) -> Iterator[tuple[str, ast.expr]]:
    """The kind and the text of each error that a function makes, and of each warning."""
    for node in local(function):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="log"), attr="warning"), args=[text, *_]):
                yield "warning", text
            case ast.Call(func=ast.Name(id=name), args=[text, *_]) if name in kinds():
                yield name, text
            case ast.Raise(exc=ast.Call(func=ast.Name(id=name), args=[text, *_])):  # of a class that was chosen before
                parts = [each for value in words.values(name) for part in value for each in ast.walk(part)]
                yield from ((part.id, text) for part in parts if isinstance(part, ast.Name) and part.id in kinds())


def quotations() -> list[str]:
    """The messages that the page quotes: the code in the first cells of its tables."""
    cells = re.findall(r"(?m)^\| (`.*?`) \|", PAGE.read_text(encoding="utf-8"))
    return [text for cell in cells for text in re.findall(r"`([^`]+)`", cell)]


def of(quotation: str, message: Message) -> bool:
    """Whether the message has the quotation's words, in their order."""
    return re.search(".*".join(map(re.escape, quotation.split(GAP))), message.text) is not None


def test_each_end_of_a_run_is_on_the_page():
    ends = [
        message
        for message in messages()
        if message.kind != "UsageError" or message.within(NOT_ARGUMENTS)
        if not message.within(OTHER_COMMANDS)
    ]
    quoted = quotations()
    assert not [message for message in ends if not any(of(quotation, message) for quotation in quoted)]


def test_the_page_invents_no_message():
    possible = [message for message in messages() if not message.within(OTHER_COMMANDS)]
    assert not [quotation for quotation in quotations() if not any(of(quotation, message) for message in possible)]


def test_a_quotation_is_long_enough_to_be_of_one_message():
    assert not [quotation for quotation in quotations() if len(re.findall(r"\w", quotation)) < LEAST]


def test_what_is_left_out_is_there():
    places = [*OTHER_COMMANDS, *NOT_ARGUMENTS]
    assert not [place for place in places if not any(message.within([place]) for message in messages())]
