"""`unskew`: the map of the project. Each command's options and work are in the module that it belongs to."""

import sys

import typer

from apps.compare.command import compare
from apps.demo import demo
from apps.launch import topology
from apps.reproduce.command import reproduce
from apps.results.command import results
from apps.simulate.command import simulate
from dashboards import command as dashboards_command
from deploy import kafka, stack_command
from deploy.cluster_command import cluster
from deploy.doctor import doctor
from deploy.errors import UserError
from producers.command import produce
from producers.skew import skew

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
app.command()(compare)
app.command()(simulate)
app.command()(reproduce)
app.command()(demo)
app.add_typer(kafka.app, name="kafka")
app.add_typer(stack_command.app, name="stack")
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
