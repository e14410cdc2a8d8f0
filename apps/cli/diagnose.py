"""`unskew diagnose`: why a Spark task is slow, and what would help."""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from unskew.apps.cli.field_options import options_from
from unskew.apps.cli.option_groups import Conf, JsonOption, KafkaOptions
from unskew.errors import UsageError, suggest_names
from unskew.shell import PICTURES, escape_controls, explain_unwritable

if TYPE_CHECKING:
    from unskew.apps.diagnosis.event_log import EventLog
    from unskew.apps.diagnosis.findings import Finding, Findings
    from unskew.apps.diagnosis.rest_api import RestApi
    from unskew.apps.diagnosis.stage_tasks import StageTasks
    from unskew.apps.diagnosis.state_keys import StoreKeys

_PAGE = 160  # columns, where the output isn't a terminal
# Orange and blue of Okabe and Ito's palette for the colour-blind.
_AS_IT_IS, _EVEN = "#E69F00", "#0072B2"
_QUIET = 2.0  # s, after which a bar shows how much is read
_MOST_QUERIES = 10  # in an error
_MOST_KEYS = 10_000_000  # tuples that are read of a topic or table


@dataclass(frozen=True)
class DiagnoseOptions:
    """What to analyse, and how much to show."""

    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCE",
            help="An event log: a file or a folder (spark.eventLog.dir). With --key: a table (Parquet, CSV, TSV or "
            "JSON lines), or kafka:TOPIC.",
        ),
    ] = None
    ui: Annotated[
        str | None, typer.Option(metavar="URL", help="The UI of a running application, or a history server.")
    ] = None
    checkpoint: Annotated[
        str | None, typer.Option(metavar="DIR", help="A streaming query's checkpoint: show its states' hottest keys.")
    ] = None
    key: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Show the hottest keys of this column, or JSON field.")
    ] = None
    application: Annotated[
        str | None, typer.Option(metavar="ID", help="One of several applications.", show_default="the newest")
    ] = None
    query: Annotated[
        str, typer.Option(metavar="TEXT", help="Only queries whose SQL or description contains this text.")
    ] = ""
    top: Annotated[int, typer.Option(min=1, help="Number of stages, or of keys, to show.")] = 5
    picture: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the stages' times, as they are and as predicted: PNG, SVG or PDF."),
    ] = None

    def require_one_kind(self) -> None:
        """Require that there is one kind of source.

        Raises ``UsageError`` if there is none, or there are several; or an option is given that this kind doesn't have.
        """
        kinds = {"SOURCE": self.sources, "--ui": self.ui, "--checkpoint": self.checkpoint}
        given = [name for name, value in kinds.items() if value]
        if len(given) != 1:
            raise UsageError(
                f"{' and '.join(given) or 'nothing'} is given; valid: one of SOURCE, --ui and --checkpoint"
            )
        if self.key is not None and not self.sources:
            raise UsageError(f"--key is given with {given[0]}; valid: with SOURCE, a table or kafka:TOPIC")
        if (self.query or self.application) and (self.key or self.checkpoint):
            name = "--query" if self.query else "--application"
            raise UsageError(f"{name} is given; valid: with --ui or event logs")
        if self.picture is not None and (self.key or self.checkpoint or len(self.sources or []) > 1):
            raise UsageError("--picture is given; valid: with --ui or one event log")
        if self.picture is not None and self.picture.suffix.lower() not in PICTURES:
            raise UsageError(
                f"--picture is {str(self.picture)!r}; valid: a file whose name ends with {', '.join(PICTURES)}"
            )


@options_from(options=DiagnoseOptions, kafka=KafkaOptions)
def diagnose(options: DiagnoseOptions, kafka: KafkaOptions, as_json: JsonOption = False, conf: Conf = None) -> None:
    """Show which tasks of a Spark application are slow, whether a hot key is the cause, and what would help.

    Works with any query: it compares rows, bytes and times of each stage's tasks, from the event log or UI. Spark
    is started only for --checkpoint.

    Example: unskew diagnose /tmp/spark-events

    Example: unskew diagnose --ui http://localhost:4040 --query "daily report"

    Example: unskew diagnose events.parquet --key user
    """
    options.require_one_kind()
    if conf and options.checkpoint is None:
        raise UsageError(f"--conf is {conf[0]!r}; valid: with --checkpoint, as nothing else starts Spark")
    if options.checkpoint is not None:
        _show_stores(options.checkpoint, options.top, as_json, conf or [])
        return
    for source in options.sources or [""]:
        if options.key is not None:
            _show_keys(source, options.key, options.top, as_json, kafka)
            continue
        described, findings = _read_ui(options) if options.ui else _read_log(source, options)
        if as_json:
            print(json.dumps(_as_json(described, findings, options.top), indent=2))
        else:
            _show_findings(described, findings, options.top)
        if options.picture is not None:
            _draw_findings(described, findings.list_worst(options.top), options.picture)


def _read_log(source: str, options: DiagnoseOptions) -> "tuple[EventLog, Findings]":
    from unskew.apps.diagnosis.event_log import EventLog
    from unskew.apps.diagnosis.log_files import find_logs

    logs, application = find_logs(Path(source)), options.application
    chosen = next((log for log in logs if application in (None, log.name)), None)
    names = [log.name for log in logs]
    if chosen is None:
        raise UsageError(f"--application is {application!r}; valid: {', '.join(names)}")
    if len(logs) > 1 and application is None:
        print(
            f"{len(logs)} applications; this is {chosen.name}, the newest. --application: {', '.join(names)}",
            file=sys.stderr,
        )
    log = EventLog()
    with _show_progress(f"reading {chosen.name}") as show:
        read, size = 0, max(chosen.size, 1)

        def count(number: int) -> None:
            nonlocal read
            read += number
            show(read / size)

        return log, _collect_findings(log.read(chosen.read_lines(count)), options.query)


def _read_ui(options: DiagnoseOptions) -> "tuple[RestApi, Findings]":
    from unskew.apps.diagnosis.rest_api import RestApi, connect

    api = RestApi(connect(options.ui or ""), options.application)
    with _show_progress(f"reading {options.ui}") as show:
        return api, _collect_findings(api.read(show), options.query)


def _collect_findings(stages: "Iterable[StageTasks]", query: str) -> "Findings":
    """The findings of the stages whose query has this text."""
    from unskew.apps.diagnosis.findings import Findings

    findings, others = Findings(), dict[str, None]()
    for stage in stages:
        if query in stage.query:
            findings.add(stage)
        elif stage.query:
            others[_shorten_query(stage)] = None
    if query and not findings.stages:
        names = [*others]
        more = ["…"] if len(names) > _MOST_QUERIES else []
        raise UsageError(f"--query is {query!r}{suggest_names(query, names[:_MOST_QUERIES] + more)}")
    return findings


@contextmanager
def _show_progress(what: str) -> Iterator[Callable[[float], None]]:
    """A function that takes the share that is done. It draws a bar on stderr once reading takes long."""
    begin = time.monotonic()
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(what, total=1.0, visible=False)
        yield lambda done: progress.update(task, completed=done, visible=time.monotonic() - begin > _QUIET)


def _as_json(described: "EventLog | RestApi", findings: "Findings", top: int) -> dict[str, Any]:
    from unskew.apps.diagnosis.advice import advise, summarise

    return {
        "application": described.application,
        "name": described.name,
        "spark": described.version,
        "stages": findings.stages,
        "findings": [
            {
                **asdict(found),
                "slowest": found.slowest._asdict(),
                "saved": found.saved,
                "summary": summarise(found),
                "advice": advise(found),
            }
            for found in findings.list_worst(top)
        ],
    }


def _show_findings(described: "EventLog | RestApi", findings: "Findings", top: int) -> None:
    from unskew.apps.diagnosis.advice import advise, summarise
    from unskew.apps.diagnosis.findings import CAUSES, FULL, SLOW

    console = Console(width=None if sys.stdout.isatty() else _PAGE)
    name = f"{escape_controls(described.name)} ({described.application}, Spark {described.version})"
    title = f"{name}: {findings.stages} stages"
    found = findings.list_worst(sys.maxsize)
    worst = found[:top]
    if not worst:
        print(f"{title}. No task takes {SLOW} × its stage's median: nothing to balance.")
        return
    table = Table("", "query", "operator", "cause", title=title, title_justify="left")
    for heading in ("tasks", "rows ×", "bytes ×", "time ×", "stage (s)", "even (s)"):
        table.add_column(heading, justify="right")
    for number, each in enumerate(worst, 1):
        ratios = (each.ratios[name] for name in ("rows_read", "bytes_read", "seconds"))
        table.add_row(
            str(number),
            Text(_describe_query(each)),
            Text(" ".join([each.operator, *([f"by {', '.join(each.stage.keys)}"] if each.stage.keys else [])])),
            CAUSES[each.cause],
            str(each.tasks),
            *(f"{ratio:.1f}" for ratio in ratios),
            f"{each.seconds:.1f}",
            f"{each.predicted:.1f}",
        )
    console.print(table)
    print("× is the fullest or slowest task over the median. even: predicted, with tasks that have equally much to do.")
    for number, each in enumerate(worst, 1):
        print(f"{number}. {escape_controls(summarise(each))}")
        for sentence in advise(each):
            print(f"   • {escape_controls(sentence)}")
    if len(found) > top:
        print(f"{len(found) - top} stages with slow tasks save less: --top {len(found)} shows them, too.")
    if all(each.cause != "skew" for each in found):
        print(f"No slow task has more than {FULL} × the median's rows or bytes that would explain it: no hot key.")


def _draw_findings(described: "EventLog | RestApi", worst: "list[Finding]", file: Path) -> None:
    """Draw two bars per finding, the worst at the top: the stage's time, and the one predicted with even tasks."""
    from matplotlib.figure import Figure

    from unskew.apps.diagnosis.findings import CAUSES

    if not worst:
        print(f"no stage to draw: {file} isn't written", file=sys.stderr)
        return
    labels = [f"{_describe_query(found)}\n{found.operator}" for found in worst]
    figure = Figure(figsize=(9, 1.2 + 0.7 * len(worst)), layout="constrained")
    axes = figure.subplots()
    rows = range(len(worst))
    axes.barh(rows, [found.seconds for found in worst], 0.7, color=_AS_IT_IS, label="as it is")
    axes.barh(rows, [found.predicted for found in worst], 0.35, color=_EVEN, label="predicted, with even tasks")
    for row, found in zip(rows, worst, strict=True):
        axes.text(found.seconds, row, f" {CAUSES[found.cause]}", va="center", fontsize=9)
    axes.set_yticks(rows, labels, fontsize=9, parse_math=False)
    axes.invert_yaxis()
    axes.margins(x=0.25)
    axes.set_xlim(left=0)
    axes.set_xlabel("time of the stage (s)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    figure.suptitle(f"{described.name}, Spark {described.version}", fontsize=11, parse_math=False)
    with explain_unwritable("--picture", file):
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=110)
    print(f"wrote {file}", file=sys.stderr)


def _describe_query(found: "Finding") -> str:
    """The query's text, and the batches of a stream."""
    batches = f", {found.batches} batches, worst {found.stage.batch}" if found.batches else ""
    return f"{_shorten_query(found.stage)} (stage {found.stage.stage}{batches})"


def _shorten_query(stage: "StageTasks") -> str:
    """The first line of the query's text, or the call."""
    lines = [line for line in stage.query.splitlines() if line.strip()] or [stage.name]
    return escape_controls(lines[0][:60])


def _show_keys(source: str, key: str, top: int, as_json: bool, kafka: KafkaOptions) -> None:
    from unskew.apps.cli.simulation.input_stream import StreamSpec
    from unskew.producers.key_counts import KeyCounts

    counts = KeyCounts()
    for block in StreamSpec(f"{source}:{key}", _MOST_KEYS, 0, kafka.connection).blocks(1 << 16):
        counts.add(block)
    if not counts.total:
        raise UsageError(f"{source!r} has no keys in {key!r}")
    hottest = [{"key": name, "tuples": tuples, "share": tuples / counts.total} for name, tuples in counts.top(top)]
    if as_json:
        found = {"tuples": counts.total, "distinct": counts.distinct, "keys": hottest}
        print(json.dumps({"source": source, "column": key, **found}, indent=2))
        return
    table = Table(
        "key", title=f"{source}: {counts.total:,} rows, {counts.distinct:,} keys of {key}", title_justify="left"
    )
    for heading in ("rows", "share"):
        table.add_column(heading, justify="right")
    for each in hottest:
        table.add_row(Text(escape_controls(each["key"])), f"{each['tuples']:,}", f"{each['share']:.1%}")
    Console(width=None if sys.stdout.isatty() else _PAGE).print(table)
    share = hottest[0]["share"]
    print(
        f"Sent by a hash of {key}, the task of the first key has at least {share:.1%} of the rows: more than its share "
        f"of {int(1 / share) + 1} tasks or more. `unskew simulate {source}:{key}` shows what groupings make of it."
    )


def _show_stores(checkpoint: str, top: int, as_json: bool, conf: list[str]) -> None:
    from unskew.apps.checkpoint.location import configure_location
    from unskew.apps.diagnosis.state_keys import find_hot_states
    from unskew.apps.driver.session import get_log_file, keep_session, start_spark
    from unskew.shell import parse_pairs

    if "://" not in checkpoint and not Path(checkpoint).is_dir():
        raise UsageError(f"there is no checkpoint {checkpoint!r}; valid: a query's checkpointLocation")
    given = parse_pairs("--conf", conf)
    location = configure_location(checkpoint, given)
    spark = start_spark("diagnose states", "local[2]", 2, given, location)
    with keep_session(spark, get_log_file()):
        stores = find_hot_states(spark, location.address, top)
    if as_json:
        print(json.dumps([{**asdict(store), "fullest": store.fullest} for store in stores], indent=2))
        return
    for store in stores:
        _show_store(store)


def _show_store(store: "StoreKeys") -> None:
    fullest = max(store.partitions.items(), key=lambda each: each[1], default=(0, 0))
    title = (
        f"{store.operator}, store {store.store}: {store.keys:,} keys in {len(store.partitions)} partitions; "
        f"partition {fullest[0]} has {fullest[1]:,}, {store.fullest:.1f} × the median"
    )
    table = Table("key", title=title, title_justify="left")
    for heading in ("partition", "entries", "bytes (JSON)", "greatest number"):
        table.add_column(heading, justify="right")
    for state in store.hottest:
        number = "" if state.number is None else f"{state.number:,.15g}"
        key = Text(escape_controls(state.key))
        table.add_row(key, str(state.partition), f"{state.entries:,}", f"{state.size:,}", number)
    Console(width=None if sys.stdout.isatty() else _PAGE).print(table)
