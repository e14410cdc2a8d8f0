"""`unskew dashboards list|metrics|generate|preview`."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from unskew.dashboards import checked_in
from unskew.dashboards.markdown import metric_list
from unskew.deploy.commands.options import METRICS, InfluxBucket, InfluxOrg, InfluxToken, InfluxUrl
from unskew.errors import EnvironmentFault, UsageError

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
        from unskew.dashboards.grafana import generate as code
    except ModuleNotFoundError as error:
        if error.name != "grafana_foundation_sdk":
            raise
        raise EnvironmentFault(
            "Grafana's SDK is missing, which only this command needs: .venv/bin/pip install -e '.[dev]'"
        ) from None
    from unskew.dashboards.lint import lint

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


@app.command()
def preview(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Which dashboards.", show_default="all")
    ] = None,
    influx_url: InfluxUrl = None,
    influx_token: InfluxToken = None,
    influx_org: InfluxOrg = None,
    influx_bucket: InfluxBucket = None,
    prometheus_url: Annotated[
        str | None,
        typer.Option(
            help="Prometheus (default: that of `unskew stack`).", envvar="PROMETHEUS_URL", rich_help_panel=METRICS
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Begin: -30m, -2h, 2024-01-01T12:00, …",
            show_default="the first batch of the last 30 minutes",
        ),
    ] = None,
    stop: Annotated[str, typer.Option("--to", help="End, likewise.")] = "now",
    run: Annotated[list[str] | None, typer.Option(help="Only this run (again: and this one).")] = None,
    grouping: Annotated[list[str] | None, typer.Option(help="Only runs with this groupingType.")] = None,
    worker: Annotated[list[str] | None, typer.Option(help="Only this worker, where workers can be chosen.")] = None,
    output: Annotated[Path, typer.Option(help="Where to.")] = Path("out/dashboards"),
) -> None:
    """Draw the dashboards without Grafana: their own queries, asked of the real servers, as pictures and one page."""
    from unskew.dashboards.preview.addresses import sources
    from unskew.dashboards.preview.chosen import Chosen
    from unskew.dashboards.preview.files import PAGE, save
    from unskew.dashboards.preview.times import filled, time

    known = checked_in.dashboards()
    for name in names or []:
        if name not in known:
            raise UsageError(f"{name}: no such dashboard; valid: {', '.join(known)}")
    now = datetime.now(UTC)
    values = {"run": run or [], "grouping": grouping or [], "worker": worker or []}
    chosen = Chosen(time(start or "-30m", now, "--from"), time(stop, now, "--to"), values)
    if chosen.start >= chosen.stop:
        raise UsageError(f"--from {start or '-30m'} is not before --to {stop}")
    asked = sources(influx_url, influx_token, influx_org, influx_bucket, prometheus_url)
    if start is None:
        chosen = filled(chosen, asked.influxdb)
    empty: list[str] = []
    for saved in save(names or known, asked, chosen, output):
        print(f"{saved.name:<10} {saved.panels} panels: {saved.file}")
        empty += [f"{saved.name}: {title}" for title in saved.empty]
    print(f"{'all':<10} {output / PAGE}")
    if empty:
        print(f"no data in {len(empty)} panels: {'; '.join(empty)}")
