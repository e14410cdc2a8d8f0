"""Options ``NAME=VALUE`` that join settings: a field of ``Settings`` says its option and its NAME (``OptionStyle``).

Other names of such an option may be parameters of the grouping or of the work.
"""

from collections.abc import Iterable, Mapping
from dataclasses import Field, fields
from typing import Any, get_args

from unskew.apps.settings import Settings
from unskew.option_style import style_of, text_of_option


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
