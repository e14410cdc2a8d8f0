"""`unskew dashboards list|metrics|generate|preview`.

The imports inside functions wait until a command runs: `unskew --help` imports this module, and only development
environments have PyYAML, which reads the alerts' figures.
"""

import logging
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Annotated

import typer

from unskew.apps.metrics import catalogue
from unskew.dashboards import checked_in
from unskew.errors import EnvironmentFault, UsageError
from unskew.option_style import METRICS

if TYPE_CHECKING:
    from unskew.dashboards.preview.data_sources import DataSources

log = logging.getLogger(__name__)

app = typer.Typer(help="Grafana dashboards: generate them from code, view them without Grafana.", no_args_is_help=True)


@app.command(name="list")
def list_() -> None:
    """List the dashboards, the question that each answers, and its file."""
    for name, dashboard in checked_in.dashboards().items():
        print(f"{name:<10} {dashboard['title']}  ({len(dashboard['panels'])} panels)")
        print(f"{'':<10} {dashboard['description']}")
        print(f"{'':<10} {checked_in.FOLDER / name}.json")


@app.command()
def metrics() -> None:
    """Print the list of all metrics as Markdown, as it is in docs/operations.md."""
    print(metric_list())


@app.command()
def generate(
    check: Annotated[bool, typer.Option("--check", help="Change nothing. Exit code 1: a file is out of date.")] = False,
) -> None:
    """Write the dashboards' JSON from the code in dashboards/grafana."""
    try:
        from unskew.dashboards.grafana.generate import DASHBOARDS, render_dashboards
        from unskew.dashboards.lint import lint
    except ModuleNotFoundError as error:
        if error.name != "yaml":
            raise
        raise EnvironmentFault(
            "PyYAML is missing, which only this command needs: .venv/bin/pip install -e '.[dev]'"
        ) from None

    files = render_dashboards()
    if problems := lint(DASHBOARDS):
        raise UsageError("; ".join(problems))
    if not check:
        changed = list(checked_in.write(files, checked_in.FOLDER))
        print(f"changed: {', '.join(changed) or 'nothing'} in {checked_in.FOLDER}")
    elif stale := checked_in.find_outdated(files, checked_in.FOLDER):
        raise EnvironmentFault(f"{', '.join(stale)}: not what the code makes; run `unskew dashboards generate`")
    else:
        print(f"{len(files)} dashboards are what the code makes, and keep to the rules")


def _warn_of_secret(context: typer.Context, parameter: typer.CallbackParam, value: str | None) -> str | None:
    """Warn of a secret on the command line."""
    source = context.get_parameter_source(str(parameter.name))
    if source is not None and source.name == "COMMANDLINE":
        log.warning(
            "%s is seen by all who list this machine's processes; valid for a secret: $%s",
            parameter.opts[0],
            parameter.envvar,
        )
    return value


@app.command()
def preview(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Dashboards to draw.", show_default="all")
    ] = None,
    influx_url: Annotated[
        str | None,
        typer.Option(
            help="URL of InfluxDB 2, http://HOST:PORT (default: that of `unskew stack`, if it runs).",
            envvar="INFLUXDB_V2_URL",
            rich_help_panel=METRICS,
        ),
    ] = None,
    influx_token: Annotated[
        str | None,
        typer.Option(
            help="InfluxDB's token. Prefer the variable: an option is visible in the process list.",
            envvar="INFLUXDB_V2_TOKEN",
            rich_help_panel=METRICS,
            callback=_warn_of_secret,
        ),
    ] = None,
    influx_org: Annotated[
        str | None,
        typer.Option(
            help="InfluxDB's organisation (default: unskew).", envvar="INFLUXDB_V2_ORG", rich_help_panel=METRICS
        ),
    ] = None,
    influx_bucket: Annotated[
        str | None,
        typer.Option(
            help="InfluxDB's bucket (default: unskew). A run creates it if the token allows it.",
            envvar="INFLUXDB_V2_BUCKET",
            rich_help_panel=METRICS,
        ),
    ] = None,
    prometheus_url: Annotated[
        str | None,
        typer.Option(
            help="Prometheus' URL (default: that of `unskew stack`). Some dashboards need no InfluxDB.",
            envvar="PROMETHEUS_URL",
            rich_help_panel=METRICS,
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Start of the time range: -30m, -2h, 2024-01-01T12:00, …",
            show_default="the first batch of the last 30 minutes",
        ),
    ] = None,
    stop: Annotated[str, typer.Option("--to", help="End of the time range, in the same form.")] = "now",
    run: Annotated[list[str] | None, typer.Option(help="Show only this run; repeatable.")] = None,
    grouping: Annotated[
        list[str] | None, typer.Option(help="Show only runs with this groupingType; repeatable.")
    ] = None,
    worker: Annotated[
        list[str] | None, typer.Option(help="Show only this worker, where workers can be selected; repeatable.")
    ] = None,
    output: Annotated[Path, typer.Option(help="Directory for the pictures and the page.")] = Path("out/dashboards"),
    follow: Annotated[
        bool, typer.Option("--follow", help="Draw again and again until Ctrl-C; the open page reloads by itself.")
    ] = False,
) -> None:
    """Draw the dashboards without Grafana, as pictures and one page, by running their queries on the servers."""
    from unskew.dashboards.preview.data_sources import DataSources, trim_selection
    from unskew.dashboards.preview.files import PAGE, save
    from unskew.dashboards.preview.selection import Selection, time

    known = checked_in.dashboards()
    for name in names or []:
        if name not in known:
            raise UsageError(f"{name}: no such dashboard; valid: {', '.join(known)}")
    values = {"run": run or [], "grouping": grouping or [], "worker": worker or []}

    def select() -> Selection:
        now = datetime.now(UTC)
        chosen = Selection(time(start or "-30m", now, "--from"), time(stop, now, "--to"), values)
        if chosen.start >= chosen.stop:
            raise UsageError(f"--from {start or '-30m'} is not before --to {stop}")
        return chosen

    selection = select()
    sources = DataSources.of(influx_url, influx_token, influx_org, influx_bucket, prometheus_url)

    def cut(chosen: Selection) -> Selection:
        return trim_selection(chosen, sources) if start is None else chosen

    drawn = names or _choose_dashboards(sources)
    if follow:
        _until_interrupted(lambda: save(drawn, sources, cut(select()), output, _EVERY), output / PAGE)
        selection = select()
    selection = cut(selection)
    empty: list[str] = []
    undrawn: list[str] = []
    for saved in save(drawn, sources, selection, output):
        print(f"{saved.name:<10} {saved.panels} panels: {saved.file}")
        empty += [f"{saved.name}: {title}" for title in saved.empty]
        undrawn += [f"{saved.name}: {title!r} {reason}" for title, reason in saved.undrawn.items()]
    print(f"{'all':<10} {output / PAGE}")
    if empty:
        print(f"no data in {len(empty)} panels: {'; '.join(empty)}")
    if undrawn:
        print(f"the preview can't draw {len(undrawn)} panels: {'; '.join(undrawn)}")


def _choose_dashboards(sources: "DataSources") -> list[str]:
    """All dashboards for which the servers suffice. Those that are left out are named."""
    suffices = {name: sources.suffice(dashboard) for name, dashboard in checked_in.dashboards().items()}
    if lacking := [name for name, enough in suffices.items() if not enough]:
        print(f"not drawn without InfluxDB (--influx-url): {', '.join(lacking)}")
    return [name for name, enough in suffices.items() if enough]


def _until_interrupted(draw: Callable[[], Iterable[object]], page: Path) -> None:
    """Draw again and again, and at the end a page that doesn't reload."""
    try:
        while True:
            for _ in draw():
                pass
            print(f"{datetime.now().astimezone():%H:%M:%S}  {page}", flush=True)
            sleep(_EVERY)
    except KeyboardInterrupt:
        pass


_EVERY = 10  # s from one drawing to the next, and between the page's reloads


def metric_list() -> str:
    """The list of all metrics, as a table: the first row of each subject says what the subject is."""
    labels = ", ".join(f"`{label}` ({meaning})" for label, meaning in catalogue.COMMON.items())
    lines = [f"Every series has the labels {labels}.", ""]
    lines += ["| of | field | unit | meaning | in Prometheus |", "| --- | --- | --- | --- | --- |"]
    for subject, of_it in groupby(catalogue.METRICS, key=lambda metric: metric.subject):
        first, *others = of_it
        lines += [_make_row(_describe(subject), first), *(_make_row("", metric) for metric in others)]
    return "\n".join(lines)


def _describe(subject: catalogue.Subject) -> str:
    labels = ", ".join(f"`{label}` ({meaning})" for label, meaning in subject.labels.items())
    time = f"; time: {subject.time}" if subject.time else "; in Prometheus only"
    return f"**`{subject.name}`** {subject.meaning}{time}" + (f"; by {labels}" if labels else "")


def _make_row(subject: str, metric: catalogue.Metric) -> str:
    kind = " (counter)" if metric.kind == "counter" else ""
    prometheus = f"`{metric.prometheus_name}`" if metric.is_number else "–"
    return f"| {subject} | `{metric.name}` | {metric.unit}{kind} | {metric.meaning} | {prometheus} |"
