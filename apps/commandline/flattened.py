"""Make options that are declared once, on the fields of a dataclass, parameters of each command that has them."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any

import typer

from unskew.apps.topology.settings import Help


def flattened(**models: type | tuple[type, str]) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Give a command the fields of dataclasses as parameters.

    A field's annotation says what the command line shows of it. It is a ``Help``, from which ``parameter`` makes the
    option, or typer's own ``Annotated[float, typer.Option(help=…)]``.

    Parameters
    ----------
    **models
        The command's parameter → a dataclass: the parameter gets an object with all fields. Or the command's parameter
        → a dataclass and a text with the names of some fields: the parameter gets a dictionary with these.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Size:
    ...     width: Annotated[int, Help("In columns.")] = 80
    >>> @flattened(size=Size)
    ... def draw(size: Size, name: str) -> None:
    ...     print(name, size)
    >>> draw(name="a", width=3)
    a Size(width=3)

    """
    makers = {name: _maker(model) for name, model in models.items()}
    parts = {name: _parameters(model) for name, model in models.items()}

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


def parameter(declared: Field[Any]) -> Parameter:
    """Make a parameter of a command from a dataclass' field: an argument if it has no default, else an option.

    An option that is off by default gets no form that turns it off.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Size:
    ...     width: Annotated[int, Help("In columns.", metavar="N")] = 80
    >>> made = parameter(fields(Size)[0])
    >>> made.default, made.annotation.__origin__, made.annotation.__metadata__[0].metavar
    (80, <class 'int'>, 'N')
    """
    default = Parameter.empty if declared.default is MISSING else declared.default
    annotation: Any = declared.type
    given = next((part for part in getattr(annotation, "__metadata__", ()) if isinstance(part, Help)), None)
    if given is not None:
        shown = {"help": given.text, "rich_help_panel": given.panel or None, "metavar": given.metavar or None}
        if default is Parameter.empty:
            annotation = Annotated[annotation.__origin__, typer.Argument(**shown)]
        else:
            name = given.name or (declared.name.replace("_", "-") if default is False else "")
            names = [f"--{name}"] if name else []
            option = typer.Option(*names, **shown, show_default=given.default or True)
            annotation = Annotated[annotation.__origin__, option]
    return Parameter(declared.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _maker(model: type | tuple[type, str]) -> Callable[[Mapping[str, Any]], Any]:
    return dict if isinstance(model, tuple) else lambda values: model(**values)


def _parameters(model: type | tuple[type, str]) -> list[Parameter]:
    owner, chosen = model if isinstance(model, tuple) else (model, "")
    declared = {f.name: f for f in fields(owner)}
    return [parameter(declared[name]) for name in chosen.split() or declared]
