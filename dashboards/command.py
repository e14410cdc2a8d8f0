"""`unskew dashboards list|metrics|generate|preview`."""

from typing import Annotated

import typer

from dashboards import checked_in
from dashboards.markdown import metric_list
from deploy.errors import EnvironmentFault, UsageError

app = typer.Typer(help="Grafana's dashboards: generate them from code, see them without Grafana.", no_args_is_help=True)


@app.command(name="list")
def list_() -> None:
    """Name the dashboards, what each answers, and its file."""
    for name, dashboard in checked_in.dashboards().items():
        print(f"{name:<10} {dashboard['title']}  ({len(dashboard['panels'])} panels)")
        print(f"{'':<10} {dashboard['description']}")
        print(f"{'':<10} {checked_in.FOLDER / name}.json")


@app.command()
def metrics() -> None:
    """Print the list of all metrics as Markdown, as it stands in the dashboards' README."""
    print(metric_list())


@app.command()
def generate(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit code 1 if a file is not what the code makes.")
    ] = False,
) -> None:
    """Write the dashboards' JSON from the code in dashboards/grafana."""
    try:
        from dashboards.grafana import generate as code
    except ModuleNotFoundError as error:
        if error.name != "grafana_foundation_sdk":
            raise
        raise EnvironmentFault(
            "Grafana's SDK is missing, which only this command needs: .venv/bin/pip install -e '.[dev]'"
        ) from None
    from dashboards.lint import lint

    files = code.rendered()
    if problems := lint(code.parsed(files)):
        raise UsageError("; ".join(problems))
    if not check:
        changed = list(code.write(files, checked_in.FOLDER))
        print(f"changed: {', '.join(changed) or 'nothing'} in {checked_in.FOLDER}")
    elif stale := code.outdated(files, checked_in.FOLDER):
        raise EnvironmentFault(f"{', '.join(stale)}: not what the code makes; run `unskew dashboards generate`")
    else:
        print(f"{len(files)} dashboards are what the code makes, and keep to the rules")
