"""`unskew topology`: the launcher, with the original's arguments in their order."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from unskew.apps.cli.field_options import options_from
from unskew.apps.cli.option_groups import (
    Conf,
    EndOptions,
    GroupingOptions,
    KafkaOptions,
    MetricsOptions,
    OperatorOptions,
    SourceOptions,
    make_settings,
    rename_settings,
)
from unskew.apps.settings import Settings, spell_grouping
from unskew.errors import UsageError
from unskew.log_format import TEXT, VARIABLE, choose_log_format
from unskew.option_style import METRICS, SPARK, is_option
from unskew.shell import parse_pairs


@options_from(
    given=(Settings, is_option),
    source=SourceOptions,
    end=EndOptions,
    own=GroupingOptions,
    work=OperatorOptions,
    metrics=MetricsOptions,
    kafka=KafkaOptions,
)
def topology(
    given: dict[str, Any],
    source: SourceOptions,
    end: EndOptions,
    own: GroupingOptions,
    work: OperatorOptions,
    metrics: MetricsOptions,
    kafka: KafkaOptions,
    live: Annotated[
        bool,
        typer.Option(
            "--live", help="Watch workers, STD_DEV, rate, lag and hot keys in the terminal.", rich_help_panel=METRICS
        ),
    ] = False,
    log_format: Annotated[
        str,
        typer.Option(
            metavar="text|json",
            envvar=VARIABLE,
            help="Format of the output: text, or one line of JSON per event, on stderr.",
            rich_help_panel=METRICS,
        ),
    ] = TEXT,
    summary: Annotated[Path | None, typer.Option(help="File to write the final summary to (JSON).")] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            help="Where the run's progress is kept, from which it resumes: a path, s3a://bucket/…, hdfs://host:port/….",
            rich_help_panel=SPARK,
            show_default="in UNSKEW_HOME",
        ),
    ] = None,
    conf: Conf = None,
    batch_timeout: Annotated[
        float | None,
        typer.Option(
            min=90,  # an idle run has a batch a minute
            help="End the run with exit code 4 after this many seconds without a batch, so that a service manager "
            "restarts it. The first batch has at least ten minutes.",
            rich_help_panel=SPARK,
            show_default="never",
        ),
    ] = None,
) -> None:
    """Run the topology: count a topic's keys over windows with a chosen grouping.

    Results go to the topics SOURCENAME-sS-wW-TYPE-aggregator and …-distribution, which `unskew results` reads.
    If a run was interrupted and is started again, it resumes from its checkpoint.

    Example: unskew topology LOCAL COUNTRY_SKEW_R80 DYNAMIC_KEY country-skew-80 5 10 x1
    """
    # pyspark and numba: the commands' help needn't wait for them.
    from unskew.apps.cli.execution import execute_topology
    from unskew.apps.library.topology import choose_checkpoint

    choose_log_format(log_format)
    if live and log_format != TEXT:
        raise UsageError(f"--live with --log-format {log_format}; valid: one of them")
    destinations = metrics.destinations()
    grouping = spell_grouping(given["grouping"])
    upper = {name: given[name].upper() for name in ("mode", "source_type")}
    with rename_settings():
        settings = make_settings(
            given | upper | {"grouping": grouping} | source.settings() | end.settings() | own.settings(),
            work,
            checkpoint=checkpoint or "",
            conf=parse_pairs("--conf", conf or []),
            options=own.of([grouping])[grouping],
        )
        settings = replace(
            settings,
            connection=kafka.connection(),
            checkpoint=choose_checkpoint(settings) if checkpoint is None else checkpoint,
        )
        execute_topology(settings, destinations, summary, live=live, batch_timeout=batch_timeout)
