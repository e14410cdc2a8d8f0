"""`unskew`: the map of the project. Each command's options and work are in the module that it belongs to."""

import sys

import typer

from unskew.apps.commandline.check_work import check_work
from unskew.apps.commandline.experiments import reproduce
from unskew.apps.commandline.launch import topology
from unskew.apps.commandline.state import state
from unskew.apps.compare.command import compare
from unskew.apps.demo import demo
from unskew.apps.results.command import results
from unskew.apps.whatif.command import simulate
from unskew.dashboards import command as dashboards_command
from unskew.deploy.commands import kafka, stack
from unskew.deploy.commands.cluster import cluster
from unskew.deploy.commands.doctor import doctor
from unskew.errors import UserError
from unskew.producers.command import produce
from unskew.producers.skew import skew

app = typer.Typer(
    name="unskew",
    help="Balance skewed Kafka streams on Spark: publish one, run the topology with a grouping, compare.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

app.command()(topology)
app.command()(produce)
app.command()(skew)
app.command()(results)
app.command()(state)
app.command()(compare)
app.command()(simulate)
app.command()(check_work)
app.command("reproduce")(reproduce)
app.command()(demo)
app.add_typer(kafka.app, name="kafka")
app.add_typer(stack.app, name="stack")
app.command()(cluster)
app.add_typer(dashboards_command.app, name="dashboards")
app.command()(doctor)


def main() -> None:
    """Run the command; a user's mistake or a fault of the environment is one line and an exit code."""
    try:
        app()
    except UserError as error:
        print(f"unskew: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
