"""`unskew`: the list of all commands. Each command has its own module."""

import os
import sys
from errno import ENOSPC
from importlib import metadata
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from unskew.apps.cli import dashboards as dashboards_command
from unskew.apps.cli import kafka, stack
from unskew.apps.cli.check_work import check_work
from unskew.apps.cli.cluster import cluster
from unskew.apps.cli.compare import compare
from unskew.apps.cli.demo import demo
from unskew.apps.cli.diagnose import diagnose
from unskew.apps.cli.doctor import doctor
from unskew.apps.cli.produce import produce, skew
from unskew.apps.cli.results import results
from unskew.apps.cli.simulate import simulate
from unskew.apps.cli.state import state
from unskew.apps.cli.topology import topology
from unskew.errors import EnvironmentFault, UserError
from unskew.log_format import report_failure


class Commands(TyperGroup):
    """All commands. A command whose output is closed, as in ``unskew results | head``, ends without an error.

    One whose output goes to a full disk ends with one in a line.
    """

    def invoke(self, ctx: typer.Context) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]

        def broken(self: Console) -> None:  # noqa: ARG001  # rich would end the process with 1
            raise BrokenPipeError

        Console.on_broken_pipe = broken
        try:
            done = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _discard_output()
            return None
        except OSError as error:
            if error.errno != ENOSPC:
                raise
            _discard_output()
            raise EnvironmentFault(f"the output can't be written ({error.strerror}): make room for it") from error
        return done


def _discard_output() -> None:
    """Discard what is still to be written, so that Python doesn't fail at its end, when it flushes."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app = typer.Typer(name="unskew", cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"unskew {metadata.version('unskew')}")
        raise typer.Exit


@app.callback()
def _take_options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Balance skewed Kafka streams on Spark: publish one, run the topology with a grouping, compare."""


app.command()(topology)
app.command()(produce)
app.command()(skew)
app.command()(results)
app.command()(state)
app.command()(compare)
app.command()(simulate)
app.command()(diagnose)
app.command()(check_work)
app.command()(demo)
app.add_typer(kafka.app, name="kafka")
app.add_typer(stack.app, name="stack")
app.command()(cluster)
app.add_typer(dashboards_command.app, name="dashboards")
app.command()(doctor)


def main() -> None:
    """Run the command. A user's mistake or a fault of the environment is printed as one line, with an exit code."""
    try:
        app()
    except UserError as error:
        report_failure(str(error), error.exit_code)
        sys.exit(error.exit_code)
