"""Annotations of a dataclass's fields with how a command's help shows them."""

from dataclasses import Field, dataclass
from typing import Any

from typing_extensions import Doc

# Headings of groups of options in a command's help.
GROUPING = "Grouping options"
STREAM = "Stream options"
SPARK = "Spark options"
WORK = "Work options"
METRICS = "Metrics options"


@dataclass(frozen=True)
class OptionStyle:
    """How a command's help shows a field, besides its ``Doc``."""

    panel: str = ""  #: The heading of its group. Empty: that of all options.
    metavar: str = ""  #: The placeholder of its value. Empty: the value's type.
    name: str = ""  #: The option's name. Empty: the field's name.
    default: str = ""  #: The default value in words. Empty: the value itself.
    compared: bool = True  #: Whether a comparison of groupings has the option, too.
    #: An option that sets several fields. If it takes pairs NAME=VALUE, such as ``-g``, the field's NAME is ``name``.
    #: Empty: the field has a separate option.
    part_of: str = ""


def style_of(declared: Field[Any]) -> OptionStyle:
    """A field's style, from its annotation."""
    parts = getattr(declared.type, "__metadata__", ())
    return next((part for part in parts if isinstance(part, OptionStyle)), OptionStyle())


def text_of_option(declared: Field[Any]) -> str | None:
    """A field's text, from its ``Doc``, or None if no option sets it."""
    parts = getattr(declared.type, "__metadata__", ())
    return next((part.documentation for part in parts if isinstance(part, Doc)), None)


def is_option(declared: Field[Any]) -> bool:
    """Whether commands have an option or argument for only this field."""
    return text_of_option(declared) is not None and not style_of(declared).part_of


def is_compared(declared: Field[Any]) -> bool:
    """Whether a comparison of groupings has it, too."""
    return is_option(declared) and style_of(declared).compared
