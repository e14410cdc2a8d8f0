"""Load an operator by its name on a command line, ``module:NAME``, with options ``name=value``."""

import importlib
import inspect
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from unskew.apps.operators.interface import KeyedOperator
from unskew.errors import UsageError, suggest_names
from unskew.shell import parse_value

_TRUTH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
# Type of a parameter → its parser, and what is valid. All others are strings.
_KINDS: dict[Any, tuple[Callable[[str], Any], str]] = {
    int: (int, "an integer"),
    float: (float, "a number"),
    bool: (lambda text: _TRUTH[text.lower()], "true or false"),
}


def import_operator(path: str, options: Mapping[str, str] | None = None, others: Iterable[str] = ()) -> KeyedOperator:
    """Create the operator that a path names, ``MODULE:NAME``, which may be in a module of the current folder.

    It names a subclass of ``KeyedOperator``, a function that returns a keyed operator, or an instance. ``options`` are
    parameters of the class or the function. Each is parsed as its annotated type: ``str``, ``int``, ``float``,
    ``bool``, or a tuple of one of these, separated by commas. A parameter that takes a str among other types, such as a
    duration, gets the text. ``others`` are other valid names of options, for the error.

    Raises ``UsageError`` if the operator can't be loaded or isn't a keyed operator, it has no such option, or a value
    is invalid.

    >>> import_operator("unskew.operators:Sessions", {"gap": "30"}).gap_ms
    30000
    """
    made = import_object(path)
    given = dict(options or {})
    if isinstance(made, KeyedOperator):
        if given:
            name = next(iter(given))
            raise UsageError(f"{path} is made already and has no option {name!r}{suggest_names(name, others)}")
        return made
    if not callable(made):
        raise UsageError(
            f"{path} is {type(made).__name__}; valid: a class of unskew.operators.KeyedOperator's, or one's object"
        )
    work = _call_maker(path, made, _read_options(path, made, given, others))
    if not isinstance(work, KeyedOperator):
        raise UsageError(
            f"{path} makes {type(work).__name__}; valid: an object of a class of unskew.operators.KeyedOperator's"
        )
    return work


def import_object(path: str) -> Any:
    """The object that ``MODULE:NAME`` names.

    A module from outside unskew is pickled by value, so that Spark's workers needn't have it. Raises ``UsageError`` if
    the object can't be loaded.
    """
    module, colon, name = path.partition(":")
    if not colon or not module or module.startswith(".") or not name:
        raise UsageError(f"the work is {path!r}; valid: MODULE:NAME, such as unskew.operators:Sessions")
    if "" not in sys.path:
        sys.path.insert(0, "")  # as python itself does for a script
    try:
        loaded = importlib.import_module(module)
    except (ImportError, SyntaxError) as error:
        looked = (
            f"; looked in {Path.cwd()} and where this Python finds modules" if _is_module_missing(error, module) else ""
        )
        raise UsageError(f"the work {path!r} can't be loaded ({error}{looked})") from None
    if not hasattr(loaded, name):
        works = [key for key, value in vars(loaded).items() if _is_operator(value)]
        raise UsageError(f"{module} has no {name!r}; valid: {', '.join(sorted(works)) or 'none, it has no works'}")
    if module.partition(".")[0] not in {"unskew", *sys.stdlib_module_names}:
        _pickle_by_value(loaded)
    return getattr(loaded, name)


def _is_module_missing(error: ImportError | SyntaxError, module: str) -> bool:
    """Whether the operator's module itself is missing, not one that it imports."""
    return isinstance(error, ModuleNotFoundError) and error.name in {module, module.partition(".")[0]}


def _is_operator(value: Any) -> bool:
    return isinstance(value, KeyedOperator) or (
        isinstance(value, type) and issubclass(value, KeyedOperator) and not inspect.isabstract(value)
    )


def _pickle_by_value(module: types.ModuleType) -> None:
    """Pickle the module's objects by value, so that Spark's workers needn't have the module."""
    try:
        from pyspark import cloudpickle  # an extra: deferred, as the library imports without pyspark
    except ImportError:
        return
    cloudpickle.register_pickle_by_value(module)


def _call_maker(path: str, make: Callable[..., Any], values: dict[str, Any]) -> Any:
    needed = [
        p.name
        for p in list_parameters(make).values()
        if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name not in values
    ]
    if needed:
        raise UsageError(f"{path} needs the option {needed[0]!r}: give {needed[0]}=VALUE")
    try:
        return make(**values)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{path}: {error}") from None


def _read_options(path: str, make: Callable[..., Any], given: dict[str, str], others: Iterable[str]) -> dict[str, Any]:
    valid = list_parameters(make)
    target = make.__init__ if isinstance(make, type) else make
    try:
        hints = get_type_hints(target) if given else {}
    except NameError as error:  # imported for type checkers only
        raise UsageError(f"{path}: the type of an option can't be found ({error})") from None
    values = {}
    for name, text in given.items():
        if name not in valid:
            raise UsageError(f"{path} has no option {name!r}{suggest_names(name, dict.fromkeys([*valid, *others]))}")
        values[name] = read_value(name, text, hints.get(name, str))
    return values


def list_parameters(make: Any) -> dict[str, inspect.Parameter]:
    """The parameters of an operator's class or function, by name; an instance or a builtin has none."""
    try:
        found = inspect.signature(make).parameters
    except (ValueError, TypeError):
        return {}
    return {name: p for name, p in found.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


def read_value(name: str, text: str, kind: Any) -> Any:
    """Parse a text as a parameter's type. The name is for the error: ``UsageError`` if the value is invalid.

    >>> read_value("at", "0.5,0.9", tuple[float, ...]), read_value("seed", "7", int | None)
    ((0.5, 0.9), 7)
    """
    several = [each for each in get_args(kind) if each is not type(None)] if get_origin(kind) is not tuple else []
    if str in several:
        return text
    if several:  # of an optional parameter: the type besides None
        return read_value(name, text, several[0])
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        return tuple(read_value(name, part.strip(), item) for part in text.split(",") if part.strip())
    return parse_value(name, text, *_KINDS[kind]) if kind in _KINDS else text
