"""`unskew demo` shows in a few minutes what skew does to a stream, and how groupings help.

The commands' help needn't wait for pyspark and numba. So modules that import these are imported where they are used.
"""

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from unskew.apps.cli.option_groups import BootstrapOption, KafkaConfigOption
from unskew.apps.settings import Settings
from unskew.dashboards import checked_in
from unskew.deploy.servers import embedded_broker, stack
from unskew.errors import EnvironmentFault
from unskew.kafka.connection import Connection
from unskew.kafka.topics import ensure_topic
from unskew.shell import find_command_name, interruption_exit_code
from unskew.shown_keys import show_key

if TYPE_CHECKING:
    from unskew.apps.cli.comparison.run_record import RunRecord

DATASET = "COUNTRY_SKEW_R80"
SOURCES, WORKERS, SPEED = 4, 10, "x1"
WINDOW = 5.0  # s

# The groupings' defaults are for streams of hours: with these, something happens in a few minutes.
SHORTENED = {"warm_up": 2.0, "check_interval": 1.0, "promotion_period": 1.0}  # s
NARROWED = {"window": 10_000}  # tuples
#: The groupings that are compared, with their options: the problem, the original's answer, both of ours.
GROUPINGS: Mapping[str, Mapping[str, float]] = {
    "KEY": {},
    "DYNAMIC_KEY": SHORTENED,
    "BOUNDED_LOAD": NARROWED,
    "PLANNED": {},
}
#: The number of messages, and of messages in a batch: a multiple of the sources, so that all batches are equal.
FULL, QUICK = (64_000, 4_000), (24_000, 2_000)


def demo(
    quick: Annotated[bool, typer.Option("--quick", help="Use a smaller stream, which takes half the time.")] = False,
    output: Annotated[Path, typer.Option(help="Directory for the table and the picture.")] = Path("out/demo"),
    bootstrap_servers: BootstrapOption = None,
    kafka_config: KafkaConfigOption = None,
) -> None:
    """Start Kafka, publish a skewed stream, count it with KEY, DYNAMIC_KEY, BOUNDED_LOAD and PLANNED, and compare them.

    Takes about three minutes on two cores. If no Kafka is named or running, it starts the embedded broker, which
    keeps running so that you can read the results.
    """
    from unskew.apps.cli.comparison.runs import make_checkpoints, run_comparison
    from unskew.apps.metrics.outputs import Destinations

    records, batch = QUICK if quick else FULL
    connection, left = _connect_kafka(bootstrap_servers, kafka_config)
    lacking = _start_stack(left)
    topic = _publish_stream(connection, records)
    _print_text(
        "DYNAMIC_KEY's periods and BOUNDED_LOAD's window are shortened: by default they are for streams of hours"
    )
    with make_checkpoints() as location:
        settings = Settings(
            mode="LOCAL",
            source_type=DATASET,
            grouping=next(iter(GROUPINGS)),
            topic=topic,
            sources=SOURCES,
            workers=WORKERS,
            speed=SPEED,
            connection=connection,
            checkpoint=location,
            window=WINDOW,
            max_tuples=batch,
            until_drained=True,
        )
        courses = run_comparison(settings, GROUPINGS, output, Destinations.of())
    if len(courses) == len(GROUPINGS):
        _print_text(_summarise_runs(*courses))
    seen = bool(courses) and not lacking
    page = _draw_dashboards([course.run for course in courses], output / "dashboards") if seen else None
    if left:
        _print_text(f"Left running, for results and metrics to be read; stop it: {'; '.join(left)}")
    if lacking:
        _print_text(_explain_missing(lacking))
    elif page is not None:
        _print_text(
            f"See the overview in {page.with_name('overview.png')}, all dashboards at {page.absolute().as_uri()}"
        )
    if len(courses) < len(GROUPINGS):
        raise typer.Exit(interruption_exit_code())


def _connect_kafka(bootstrap_servers: str | None, kafka_config: Path | None) -> tuple[Connection, list[str]]:
    """The user's Kafka, else the embedded broker; and the command that stops the broker, if we started it."""
    try:
        return Connection.of(bootstrap_servers, kafka_config), []
    except EnvironmentFault:
        _print_text("starting Kafka ...")
        address = embedded_broker.start_broker()
        _print_text(f"Kafka is ready at {address.bootstrap_servers}")
        return Connection(address.bootstrap_servers), [f"{find_command_name()} kafka stop"]


def _start_stack(left: list[str]) -> list[str]:
    """Start InfluxDB and Prometheus if their programs are on this machine; returns those that aren't."""
    missing = [part for part in stack.PARTS if not stack.find_server(part)]
    lacking = [part for part in missing if not stack.has_program(part)]
    if lacking:
        return lacking
    for part in missing:
        server = stack.start_server(part)
        _print_text(f"{server.name} is ready at {server.url}")
    if missing:
        left.append(f"{find_command_name()} stack stop")
    return []


def _explain_missing(lacking: list[str]) -> str:
    """How to get dashboards in the next demo."""
    takes = "about 5 minutes on two cores" if "influxdb" in lacking else "some seconds"
    return (
        f"No dashboards: no {' and '.join(lacking)} on this machine; in the project's repository `make servers` gets "
        f"what is missing, in {takes}; elsewhere `{find_command_name()} stack start` says how"
    )


def _draw_dashboards(runs: list[str], folder: Path) -> Path:
    """Draw the dashboards; returns the page with all of them."""
    from unskew.dashboards.preview.data_sources import DataSources, trim_selection
    from unskew.dashboards.preview.files import PAGE, save
    from unskew.dashboards.preview.selection import Selection

    now = datetime.now(UTC)
    sources = DataSources.of()
    selection = trim_selection(Selection(now - timedelta(hours=1), now, {"run": runs}), sources)
    _print_text("drawing the dashboards ...")
    for saved in save(checked_in.NAMES, sources, selection, folder):
        _print_text(f"saved {saved.file}")
    _print_text(f"saved {folder / PAGE}: all of them")
    return folder / PAGE


def _publish_stream(connection: Connection, records: int) -> str:
    """Publish the stream to a new topic, so that the counts are this demo's alone; returns the topic."""
    from unskew.producers.datasets.registry import create_dataset
    from unskew.producers.publish import publish_dataset
    from unskew.producers.terminal import UploadProgress

    topic = time.strftime("demo-%m%d-%H%M%S")
    while not ensure_topic(connection, topic, SOURCES):
        topic += "-2"
    dataset = create_dataset(DATASET, records=records)
    with UploadProgress(dataset.name, records, Console(stderr=True)) as progress:
        summary = publish_dataset(connection, topic, dataset, progress=progress.update)
    hottest = summary.keys.top(1)[0][0]
    _print_text(
        f"published {summary.records:,} messages to {topic} in {summary.seconds:.1f} s: "
        f"{summary.keys.distinct} countries, but {summary.p1:.0%} of the messages are {show_key(hottest)}"
    )
    return topic


def _summarise_runs(key: "RunRecord", dynamic: "RunRecord", bounded: "RunRecord", planned: "RunRecord") -> str:
    return (
        f"With {key.grouping}, all of the hottest key's tuples queue at one of {WORKERS} workers, which takes "
        f"{key.summary.straggling:.1f} times as long as the mean one. {dynamic.grouping} learned to spread them over "
        f"{_describe_gain(dynamic, key)}. {bounded.grouping} let them spill over to {_describe_gain(bounded, key)}. "
        f"{planned.grouping} counted each batch first, and divided them between {_describe_gain(planned, key)}."
    )


def _describe_gain(course: "RunRecord", key: "RunRecord") -> str:
    faster = course.summary.tuples_per_second / key.summary.tuples_per_second
    return (
        f"{course.hot_key_workers} workers: {course.last_quarter_straggling:.1f} times in the last quarter of the "
        f"stream, {faster:.1f} times the tuples/s after the first batch, "
        f"{course.summary.dist_cost:.2f} partial results a key"
    )


def _print_text(text: str) -> None:
    console = Console(highlight=False)
    console.print(text, markup=False, soft_wrap=not console.is_terminal)
