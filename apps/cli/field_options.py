"""Make options that are declared once, on the fields of a dataclass, parameters of each command that has them.

Options ``NAME=VALUE`` join several settings: a field of ``Settings`` says its option and its NAME (``OptionStyle``).
Other names of such an option may be parameters of the grouping or of the work.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, TypeAlias, get_args

import typer

from unskew.apps.settings import Settings
from unskew.option_style import style_of, text_of_option

#: A dataclass, and which of its fields a command has.
FieldSelection: TypeAlias = tuple[type, Callable[[Field[Any]], bool]]


def options_from(**models: type | FieldSelection) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Give a command the fields of dataclasses as parameters.

    A field's annotation says what the command line shows of it. It has a ``Doc`` and perhaps an ``OptionStyle``, from
    which ``make_parameter`` makes the option, or is typer's own ``Annotated[float, typer.Option(help=…)]``.

    Parameters
    ----------
    **models
        The command's parameter → a dataclass: the parameter gets an object with all fields. Or the command's parameter
        → a dataclass, and which of its fields are options: the parameter gets a dictionary with these.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from typing_extensions import Doc
    >>> @dataclass
    ... class Size:
    ...     width: Annotated[int, Doc("In columns.")] = 80
    >>> @options_from(size=Size)
    ... def draw(size: Size, name: str) -> None:
    ...     print(name, size)
    >>> draw(name="a", width=3)
    a Size(width=3)

    """
    makers = {name: _choose_factory(model) for name, model in models.items()}
    parts = {name: _make_parameters(model) for name, model in models.items()}

    def with_parameters(command: Callable[..., Any]) -> Callable[..., None]:
        own = [p for p in signature(command, eval_str=True).parameters.values() if p.name not in models]
        every = [*(p for part in parts.values() for p in part), *(p.replace(kind=Parameter.KEYWORD_ONLY) for p in own)]

        @wraps(command)
        def flat(**values: Any) -> None:
            made = {name: makers[name]({p.name: values.pop(p.name) for p in parts[name]}) for name in models}
            command(**values, **made)

        del flat.__wrapped__  # the command's signature isn't this function's
        vars(flat)["__signature__"] = Signature(every)
        flat.__annotations__ = {p.name: p.annotation for p in every}
        return flat

    return with_parameters


def make_parameter(declared: Field[Any]) -> Parameter:
    """Make a parameter of a command from a dataclass' field: an argument if it has no default, else an option.

    An option that is off by default gets no form that turns it off.

    >>> from dataclasses import dataclass
    >>> from typing_extensions import Doc
    >>> from unskew.option_style import OptionStyle
    >>> @dataclass
    ... class Size:
    ...     width: Annotated[int, Doc("In columns."), OptionStyle(metavar="N")] = 80
    >>> made = make_parameter(fields(Size)[0])
    >>> made.default, made.annotation.__origin__, made.annotation.__metadata__[0].metavar
    (80, <class 'int'>, 'N')
    """
    default = Parameter.empty if declared.default is MISSING else declared.default
    annotation: Any = declared.type
    given, shown = text_of_option(declared), style_of(declared)
    if given is not None:
        texts = {
            "help": given,
            "rich_help_panel": shown.panel or None,
            "metavar": shown.metavar or None,
        }
        if default is Parameter.empty:
            texts["metavar"] = shown.metavar or declared.name.upper()
            annotation = Annotated[annotation.__origin__, typer.Argument(**texts)]
        else:
            name = shown.name or (declared.name.replace("_", "-") if default is False else "")
            names = [f"--{name}"] if name else []
            option = typer.Option(*names, **texts, show_default=shown.default or True)
            annotation = Annotated[annotation.__origin__, option]
    return Parameter(declared.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _choose_factory(model: type | FieldSelection) -> Callable[[Mapping[str, Any]], Any]:
    return dict if isinstance(model, tuple) else lambda values: model(**values)


def _make_parameters(model: type | FieldSelection) -> list[Parameter]:
    owner, chosen = model if isinstance(model, tuple) else (model, lambda _: True)
    return [make_parameter(declared) for declared in fields(owner) if chosen(declared)]


def list_parts(option: str) -> dict[str, Field[Any]]:
    """NAME → the setting that the option sets by it."""
    return {style_of(part).name: part for part in fields(Settings) if style_of(part).part_of == option}


def describe_parts(parts: Mapping[str, Field[Any]]) -> str:
    """What the help says of an option's names: a line for each.

    >>> describe_parts(list_parts("-g"))
    '• seed=N: Seed of the hash functions. (default: 0)'
    """
    lines = []
    for name, part in parts.items():
        default = f" (default: {part.default})" if part.default not in (None, ()) else ""
        lines.append(f"• {name}={style_of(part).metavar}: {text_of_option(part)}{default}")
    return "\n\n".join(lines)


def read_parts(
    option: str, parts: Mapping[str, Field[Any]], pairs: Iterable[tuple[str, str]]
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The settings that pairs of name and value give, and the pairs with other names.

    Raises
    ------
    UsageError
        A value isn't of its setting's type.

    Examples
    --------
    >>> read_parts("-g", list_parts("-g"), [("seed", "7"), ("slack", "0.1")])
    ({'seed': 7}, [('slack', '0.1')])

    """
    from unskew.apps.operators.loader import read_value  # imports pyarrow, which the commands' help needn't wait for

    given, others = {}, []
    for name, text in pairs:
        if name in parts:
            given[parts[name].name] = read_value(f"{option} {name}", text, get_args(parts[name].type)[0])
        else:
            others.append((name, text))
    return given, others
