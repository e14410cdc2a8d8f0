"""`unskew topology`: the launcher, with the original's arguments in the original's order."""

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from unskew.apps.commandline import options
from unskew.deploy.client.connection import Connection
from unskew.deploy.commands.options import (
    METRICS,
    BootstrapOption,
    InfluxBucket,
    InfluxOrg,
    InfluxToken,
    InfluxUrl,
    KafkaConfigOption,
)
from unskew.deploy.home import home
from unskew.errors import EnvironmentFault

if TYPE_CHECKING:
    from unskew.apps.monitoring.outputs import Destinations
    from unskew.apps.topology.settings import Settings


def topology(
    mode: Annotated[str, typer.Argument(help="LOCAL (Spark in this process) or CLUSTER (on --master).")],
    source_type: options.SourceType,
    grouping_type: Annotated[
        str, typer.Argument(help="How tuples are routed: SHUFFLE, KEY, PARTIAL_KEY, DYNAMIC_KEY, …")
    ],
    source_name: Annotated[str, typer.Argument(help="The Kafka topic; made if it isn't there.")],
    num_spouts: Annotated[int, typer.Argument(help="Sources S: the topic's partitions.")],
    num_workers: Annotated[int, typer.Argument(help="Workers W.")],
    speed: options.Speed,
    until_drained: Annotated[
        bool, typer.Option("--until-drained", help="Stop when all published so far is counted and its windows out.")
    ] = False,
    run_time: Annotated[float, typer.Option(help="Stop after so many seconds (default: 10 days).")] = 864_000.0,
    process_duration: options.ProcessDuration = 1.0,
    window: options.Window = 15.0,
    time: options.Time = "batch",
    lateness: options.Lateness = 10.0,
    starting_offsets: Annotated[
        str,
        typer.Option(help="Without a checkpoint: earliest, latest, or Spark's JSON.", rich_help_panel=options.STREAM),
    ] = "earliest",
    max_ahead: options.MaxAhead = 3600.0,
    on_data_loss: options.OnDataLoss = "fail",
    max_tuples: options.MaxTuples = None,
    distinct_keys: options.DistinctKeys = None,
    warm_up: options.WarmUp = None,
    check_interval: options.CheckInterval = None,
    promotion_period: options.PromotionPeriod = None,
    grouping_option: options.GroupingOption = None,
    seed: options.Seed = 0,
    work: options.WorkOption = None,
    work_columns: options.WorkColumns = "",
    work_errors: options.WorkErrors = "fail",
    metrics: options.MetricsOption = True,
    influx_url: InfluxUrl = None,
    influx_token: InfluxToken = None,
    influx_org: InfluxOrg = None,
    influx_bucket: InfluxBucket = None,
    prometheus_port: options.PrometheusPort = None,
    consumer_group: Annotated[
        str | None,
        typer.Option(
            help="Kafka group that shows lag tools how far the run is; '' for none.",
            show_default="unskew-RUN",
            rich_help_panel=METRICS,
        ),
    ] = None,
    live: options.LiveOption = False,
    summary: Annotated[Path | None, typer.Option(help="Write the final summary here (JSON).")] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            help="Where the run's progress is kept; the same resumes it (path or URI).", rich_help_panel=options.SPARK
        ),
    ] = None,
    trigger: options.Trigger = 1.0,
    master: options.Master = None,
    conf: options.Conf = None,
    bootstrap_servers: BootstrapOption = None,
    kafka_config: KafkaConfigOption = None,
) -> None:
    """Run the topology: count a topic's keys over windows with a chosen grouping.

    Results go to the topics SOURCENAME-sS-wW-TYPE-aggregator and …-distribution (`unskew results` reads them).
    Interrupted, it goes on from its checkpoint when it is started again.

    Example: unskew topology LOCAL COUNTRY_SKEW_R80 DYNAMIC_KEY country-skew-80 5 10 x1
    """
    from unskew.apps.monitoring.outputs import Destinations
    from unskew.apps.topology.settings import Settings
    from unskew.grouping import named

    asked = (influx_url, influx_token, influx_org, influx_bucket, prometheus_port)
    destinations = Destinations.of(*asked) if metrics else Destinations()
    grouping = options.runnable(grouping_type)
    own = options.given(
        {
            "distinct_keys": distinct_keys,
            "warm_up": warm_up,
            "check_interval": check_interval,
            "promotion_period": promotion_period,
        }
    )
    own |= options.grouping_options(grouping, grouping_option or [])
    short = named(grouping).short
    default = home() / "checkpoints" / f"{source_name}-s{num_spouts}-w{num_workers}-{short}"
    settings = Settings(
        mode=mode.upper(),
        source_type=source_type.upper(),
        grouping=grouping,
        source_name=source_name,
        sources=num_spouts,
        workers=num_workers,
        speed=speed,
        connection=Connection.of(bootstrap_servers, kafka_config),
        checkpoint=checkpoint or str(default),
        process_ms=process_duration,
        window=window,
        time=time,
        lateness=lateness,
        trigger=trigger,
        run_time=run_time,
        until_drained=until_drained,
        starting_offsets=starting_offsets,
        max_tuples=max_tuples,
        master=master,
        conf=dict(options.pair("--conf", setting) for setting in conf or []),
        options=own,
        seed=seed,
        work=options.function(work),
        work_columns=tuple(column for column in work_columns.split(",") if column),
        consumer_group=consumer_group,
        on_data_loss=on_data_loss,
        max_ahead=max_ahead,
        work_errors=work_errors,
    )
    execute(settings, destinations, summary, live=live)


def execute(settings: "Settings", destinations: "Destinations", summary: Path | None, *, live: bool) -> None:
    """Run the topology with a display and an orderly end; print (and save) the summary."""
    from dataclasses import asdict

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
