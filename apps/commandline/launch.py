"""`unskew topology`: the launcher, with the original's arguments in the original's order."""

import signal
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from unskew.apps.commandline.flattened import flattened
from unskew.apps.commandline.options import (
    Conf,
    GroupingOptions,
    KafkaOptions,
    LiveOption,
    MetricsOptions,
    pairs,
    scheme,
)
from unskew.apps.commandline.work import WorkOptions
from unskew.apps.topology.settings import SPARK, Settings
from unskew.deploy.client.connection import Connection
from unskew.deploy.home import home
from unskew.errors import EnvironmentFault

if TYPE_CHECKING:
    from unskew.apps.monitoring.outputs import Destinations


@flattened(
    given=(
        Settings,
        """mode source_type grouping source_name sources workers speed key_field format schema schema_registry
        until_drained run_time process_ms key_costs window time lateness starting_offsets max_ahead on_data_loss
        max_tuples trigger master state_partitions seed work_errors ttl merge_every consumer_group""",
    ),
    own=GroupingOptions,
    work=WorkOptions,
    metrics=MetricsOptions,
    kafka=KafkaOptions,
)
def topology(
    given: dict[str, Any],
    own: GroupingOptions,
    work: WorkOptions,
    metrics: MetricsOptions,
    kafka: KafkaOptions,
    live: LiveOption = False,
    summary: Annotated[Path | None, typer.Option(help="Write the final summary here (JSON).")] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            help="Where the run's progress is kept; the same resumes it: a path, s3a://bucket/…, hdfs://host:port/….",
            rich_help_panel=SPARK,
            show_default="in UNSKEW_HOME",
        ),
    ] = None,
    conf: Conf = None,
) -> None:
    """Run the topology: count a topic's keys over windows with a chosen grouping.

    Results go to the topics SOURCENAME-sS-wW-TYPE-aggregator and …-distribution (`unskew results` reads them).
    Interrupted, it goes on from its checkpoint when it is started again.

    Example: unskew topology LOCAL COUNTRY_SKEW_R80 DYNAMIC_KEY country-skew-80 5 10 x1
    """
    grouping = scheme(given["grouping"])
    upper = {name: given[name].upper() for name in ("mode", "source_type")}
    settings = Settings(
        **given | upper | {"grouping": grouping},
        connection=Connection(""),
        checkpoint=checkpoint or "",
        conf=pairs("--conf", conf or []),
        options=own.of([grouping])[grouping],
        **work.settings(),
    )
    # Only after what is wrong with the rest is it asked where Kafka is.
    settings = replace(
        settings,
        connection=kafka.connection(),
        checkpoint=checkpoint if checkpoint is not None else str(home() / "checkpoints" / settings.name),
    )
    execute(settings, metrics.destinations(), summary, live=live)


def execute(settings: Settings, destinations: "Destinations", summary: Path | None, *, live: bool) -> None:
    """Run the topology with a display and an orderly end; print (and save) the summary."""
    from unskew.apps.monitoring.display import Display
    from unskew.apps.monitoring.live import LiveView
    from unskew.apps.monitoring.monitor import Monitor
    from unskew.apps.monitoring.outputs import Outputs
    from unskew.apps.monitoring.summary import Tally
    from unskew.apps.run.run import Run
    from unskew.apps.run.session import session
    from unskew.apps.topology.publisher import result_topics

    tally = Tally(settings.grouping)
    view = LiveView(settings) if live else None
    with Outputs(destinations) as outputs, Display(settings, view=view, notice=lambda: outputs.losses) as display:
        if outputs.exporter is not None:
            display.note(f"metrics for Prometheus: {outputs.exporter.url}")
        monitor = Monitor(settings, outputs)
        listeners, followers = [tally, monitor.batch], [monitor.progress]
        if view is not None:
            listeners.append(view.batch)
            followers.append(view.progress)
        run = Run(settings, [*listeners, display.batch], followers)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: (run.stop(), display.stopping()))
        with session(settings) as spark:
            display.target(run.waiting)
            outcome = run.run(spark)
    result = tally.summary()
    display.summary(result, outcome, result_topics(settings))
    if outputs.balance:
        print(outputs.balance)
    if summary is not None:
        try:
            summary.write_bytes(orjson.dumps(asdict(result), option=orjson.OPT_INDENT_2))
        except OSError as error:
            raise EnvironmentFault(f"the summary can't be written to {summary} ({error.strerror})") from error
