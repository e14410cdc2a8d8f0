"""Options of `unskew topology` in the spelling of earlier versions. They are taken, and told how they are now."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from typer.core import TyperCommand

# Earlier option → what stands for it now. ``{}`` is the value; without it, the option had none.
_NOW: dict[str, tuple[str, str]] = {
    "--until-drained": ("--until", "drained"),
    "--run-time": ("--until", "{}"),
    "--no-metrics": ("--metrics", "none"),
    "--seed": ("-g", "seed={}"),
    "--key-field": ("-s", "key={}"),
    "--format": ("-s", "format={}"),
    "--schema": ("-s", "schema={}"),
    "--time-field": ("-s", "time={}"),
    "--time-unit": ("-s", "unit={}"),
    "--work-columns": ("--work-option", "columns={}"),
    "--work-errors": ("--work-option", "errors={}"),
    "--ttl": ("--work-option", "ttl={}"),
    "--merge-every": ("--work-option", "merge_every={}"),
}


def respell_options(arguments: Sequence[str]) -> Iterator[str]:
    """The arguments, with the options of earlier versions as they are spelled now.

    >>> list(respell_options(["t", "--key-field", "user.id", "--run-time=60"]))
    ['t', '-s', 'key=user.id', '--until', '60']
    """
    left = iter(arguments)
    for argument in left:
        name, given, value = argument.partition("=")
        if name not in _NOW:
            yield argument
            continue
        option, form = _NOW[name]
        if "{}" in form and not given:
            value = next(left, "")
        print(f"{name} is {option} {form.format('…')} now", file=sys.stderr)
        yield from (option, form.format(value))


class TopologyCommand(TyperCommand):
    """A command that takes the earlier spellings, too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments."""
        return super().parse_args(ctx, list(respell_options(args)))
