"""`unskew compare`: chosen groupings over the same topic and settings, one table and one picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from unskew.apps.commandline import options
from unskew.deploy.client.connection import Connection
from unskew.deploy.commands.options import (
    BootstrapOption,
    InfluxBucket,
    InfluxOrg,
    InfluxToken,
    InfluxUrl,
    KafkaConfigOption,
)
from unskew.errors import UsageError

INTERRUPTED = 130  # what a shell reports of a command that Ctrl-C ended


def compare(
    source_type: options.SourceType,
    source_name: Annotated[str, typer.Argument(help="The Kafka topic; must hold messages.")],
    num_spouts: Annotated[int, typer.Argument(help="Sources S: the topic's partitions.")],
    num_workers: Annotated[int, typer.Argument(help="Workers W.")],
    speed: options.Speed,
    groupings: Annotated[
        str, typer.Option(metavar="NAME,…", help="Which, in this order.")
    ] = "SHUFFLE,KEY,PARTIAL_KEY,DYNAMIC_KEY",
    output: Annotated[
        Path | None,
        typer.Option(help="Directory for the table and the picture.", show_default="out/compare-SOURCENAME"),
    ] = None,
    process_duration: options.ProcessDuration = 1.0,
    window: options.Window = 15.0,
    time: options.Time = "batch",
    lateness: options.Lateness = 10.0,
    max_tuples: options.MaxTuples = None,
    distinct_keys: options.DistinctKeys = None,
    warm_up: options.WarmUp = None,
    check_interval: options.CheckInterval = None,
    promotion_period: options.PromotionPeriod = None,
    grouping_option: options.GroupingOption = None,
    seed: options.Seed = 0,
    work: options.WorkOption = None,
    work_columns: options.WorkColumns = "",
    checkpoint: Annotated[
        str | None,
        typer.Option(
            help="Where the runs keep their progress, removed at the end (path or URI).",
            rich_help_panel=options.SPARK,
            show_default="in UNSKEW_HOME",
        ),
    ] = None,
    trigger: options.Trigger = 1.0,
    master: options.Master = None,
    conf: options.Conf = None,
    metrics: options.MetricsOption = True,
    influx_url: InfluxUrl = None,
    influx_token: InfluxToken = None,
    influx_org: InfluxOrg = None,
    influx_bucket: InfluxBucket = None,
    prometheus_port: options.PrometheusPort = None,
    bootstrap_servers: BootstrapOption = None,
    kafka_config: KafkaConfigOption = None,
) -> None:
    """Run groupings one after the other over all that a topic holds, and compare them.

    Prints one table; saves it as comparison.csv and .json, with a picture, comparison.png. Options of groupings apply
    to those that have them. The results of each run are in its topics, as of `unskew topology`.

    Example: unskew compare COUNTRY_SKEW_R80 country-skew-80 5 10 x1 --groupings KEY,DYNAMIC_KEY --max-tuples 4000
    """
    names = [options.runnable(name.strip()) for name in groupings.split(",") if name.strip()]
    if not names:
        raise UsageError("--groupings is empty; valid: names separated by commas, such as KEY,DYNAMIC_KEY")
    named_options = {
        "distinct_keys": distinct_keys,
        "warm_up": warm_up,
        "check_interval": check_interval,
        "promotion_period": promotion_period,
    }
    own = own_options(names, options.given(named_options), grouping_option or [])
    connection = Connection.of(bootstrap_servers, kafka_config)

    from unskew.apps.compare.contest import fresh_checkpoints, hold
    from unskew.apps.monitoring.outputs import Destinations
    from unskew.apps.topology.settings import Settings

    asked = (influx_url, influx_token, influx_org, influx_bucket, prometheus_port)
    destinations = Destinations.of(*asked) if metrics else Destinations()

    with fresh_checkpoints(checkpoint) as location:
        first = Settings(
            mode="LOCAL" if master is None or master.startswith("local") else "CLUSTER",
            source_type=source_type.upper(),
            grouping=names[0],
            source_name=source_name,
            sources=num_spouts,
            workers=num_workers,
            speed=speed,
            connection=connection,
            checkpoint=location,
            process_ms=process_duration,
            window=window,
            time=time,
            lateness=lateness,
            trigger=trigger,
            until_drained=True,
            max_tuples=max_tuples,
            master=master,
            conf=dict(options.pair("--conf", setting) for setting in conf or []),
            options=own[names[0]],
            seed=seed,
            work=options.function(work),
            work_columns=tuple(column for column in work_columns.split(",") if column),
        )
        courses = hold(first, own, output or Path("out") / f"compare-{source_name}", destinations)
        if len(courses) < len(own):
            raise typer.Exit(INTERRUPTED)


def own_options(groupings: Sequence[str], given: dict[str, Any], pairs: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Grouping → those of the given options (by name, or as ``NAME=VALUE``) that it has.

    Raises
    ------
    UsageError
        None of the groupings has one of them, or a value is wrong.

    """
    from unskew.grouping import parameters

    names = [*given, *(options.pair("--grouping-option", text)[0] for text in pairs)]
    for name in names:
        if not any(name in parameters(grouping) for grouping in groupings):
            valid = sorted({parameter for grouping in groupings for parameter in parameters(grouping)})
            raise UsageError(f"none of {', '.join(groupings)} has {name!r}; valid: {', '.join(valid) or 'none'}")
    return {
        grouping: {name: value for name, value in given.items() if name in parameters(grouping)}
        | options.grouping_options(grouping, [text for text in pairs if text.partition("=")[0] in parameters(grouping)])
        for grouping in groupings
    }
