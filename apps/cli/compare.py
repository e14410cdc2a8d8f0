"""`unskew compare`: run several groupings on the same topic and settings, and compare them."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from unskew.apps.cli.field_options import options_from
from unskew.apps.cli.option_groups import (
    Conf,
    GroupingOptions,
    KafkaOptions,
    MetricsOptions,
    OperatorOptions,
    SourceOptions,
    make_settings,
    parse_schemes,
    rename_settings,
)
from unskew.apps.settings import Settings, choose_mode
from unskew.option_style import SPARK, is_compared
from unskew.shell import interruption_exit_code, parse_pairs


@options_from(
    given=(Settings, is_compared),
    source=SourceOptions,
    own=GroupingOptions,
    work=OperatorOptions,
    metrics=MetricsOptions,
    kafka=KafkaOptions,
)
def compare(
    given: dict[str, Any],
    source: SourceOptions,
    own: GroupingOptions,
    work: OperatorOptions,
    metrics: MetricsOptions,
    kafka: KafkaOptions,
    groupings: Annotated[
        str, typer.Option(metavar="NAME,…", help="Groupings to compare, in this order.")
    ] = "SHUFFLE,KEY,PARTIAL_KEY,DYNAMIC_KEY",
    output: Annotated[
        Path | None,
        typer.Option(help="Directory for the table and the picture.", show_default="out/compare-SOURCENAME"),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            help="Where runs keep their progress until they end: a path, s3a://bucket/…, hdfs://host:port/….",
            rich_help_panel=SPARK,
            show_default="in UNSKEW_HOME",
        ),
    ] = None,
    conf: Conf = None,
) -> None:
    """Run groupings one after the other over all messages of a topic, and compare them.

    Prints one table. Saves it as comparison.csv and comparison.json, with a picture, comparison.png.
    A grouping's parameter applies to all groupings that have it.
    The results of each run are in its topics, as with `unskew topology`.

    Example: unskew compare COUNTRY_SKEW_R80 country-skew-80 5 10 x1 --groupings KEY,DYNAMIC_KEY --max-tuples 4000
    """
    # pyspark and numba: the commands' help needn't wait for them.
    from unskew.apps.cli.comparison.runs import make_checkpoints, run_comparison

    destinations = metrics.destinations()
    names = parse_schemes(groupings)
    options = own.of(names)
    chosen = parse_pairs("--conf", conf or [])
    common = given | {"source_type": given["source_type"].upper()} | source.settings() | own.settings()
    with rename_settings(), make_checkpoints(checkpoint, chosen) as location:
        runs = [
            make_settings(
                common,
                work,
                mode=choose_mode(given["master"]),
                grouping=name,
                checkpoint=location,
                until_drained=True,
                conf=chosen,
                options=options[name],
            )
            for name in names  # what one of them can't have is said before the first runs
        ]
        first = replace(runs[0], connection=kafka.connection())
        courses = run_comparison(first, options, output or Path("out") / f"compare-{first.topic}", destinations)
        if len(courses) < len(options):
            raise typer.Exit(interruption_exit_code())
