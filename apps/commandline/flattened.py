"""Options that are declared once, on the fields of a dataclass, as parameters of each command that has them."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any


def flattened(**models: type | tuple[type, str]) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Give a command the fields of dataclasses as parameters of its own.

    Parameters
    ----------
    **models
        The command's parameter that gets them → a dataclass, whose object it gets, made from all fields; or a dataclass
        and the names of some fields (with blanks between), of which it gets a dictionary. A field is an argument or an
        option as its annotation says: ``Annotated[float, typer.Option(help=…)]``.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from typing import Annotated
    >>> import typer
    >>> @dataclass
    ... class Size:
    ...     width: Annotated[int, typer.Option(help="In columns.")] = 80
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

        del flat.__wrapped__  # its signature isn't this one
        vars(flat)["__signature__"] = Signature(every)
        flat.__annotations__ = {p.name: p.annotation for p in every}
        return flat

    return with_parameters


def _maker(model: type | tuple[type, str]) -> Callable[[Mapping[str, Any]], Any]:
    return dict if isinstance(model, tuple) else lambda values: model(**values)


def _parameters(model: type | tuple[type, str]) -> list[Parameter]:
    owner, chosen = model if isinstance(model, tuple) else (model, "")
    defaults = {f.name: Parameter.empty if f.default is MISSING else f.default for f in fields(owner)}
    hints = {f.name: f.type for f in fields(owner)}
    return [
        Parameter(name, Parameter.KEYWORD_ONLY, default=defaults[name], annotation=hints[name])
        for name in chosen.split() or defaults
    ]
