"""`unskew topology`: the launcher, with the original's arguments in the original's order."""

import importlib
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from deploy.connection import BootstrapOption, Connection, KafkaConfigOption
from deploy.errors import UsageError
from deploy.home import home
from grouping import GROUPINGS, named, parameters

if TYPE_CHECKING:
    from apps.settings import Settings

_GROUPING = "Of the grouping"
_STREAM = "Of the stream"
_SPARK = "Of Spark"


def topology(
    mode: Annotated[str, typer.Argument(help="LOCAL (Spark in this process) or CLUSTER (on --master).")],
    source_type: Annotated[str, typer.Argument(help="What the messages are: COUNTRY_SKEW_R80, …")],
    grouping_type: Annotated[str, typer.Argument(help=f"How tuples are routed: {', '.join(GROUPINGS)}.")],
    source_name: Annotated[str, typer.Argument(help="The Kafka topic; made if it isn't there.")],
    num_spouts: Annotated[int, typer.Argument(help="Sources S: the topic's partitions.")],
    num_workers: Annotated[int, typer.Argument(help="Workers W.")],
    speed: Annotated[str, typer.Argument(help="xN: a worker does N tuples per process duration; x0: they're free.")],
    until_drained: Annotated[
        bool, typer.Option("--until-drained", help="Stop when all published so far is counted and its windows out.")
    ] = False,
    run_time: Annotated[float, typer.Option(help="Stop after so many seconds (default: 10 days).")] = 864_000.0,
    process_duration: Annotated[float, typer.Option(help="Simulated cost (ms); see speed.")] = 1.0,
    window: Annotated[float, typer.Option(help="Length of a window (s).", rich_help_panel=_STREAM)] = 15.0,
    time: Annotated[
        str, typer.Option(help="Windows by 'batch' time (nothing is late) or 'event' time.", rich_help_panel=_STREAM)
    ] = "batch",
    lateness: Annotated[
        float, typer.Option(help="Event time: how late is allowed (s).", rich_help_panel=_STREAM)
    ] = 10.0,
    starting_offsets: Annotated[
        str, typer.Option(help="Without a checkpoint: earliest, latest, or Spark's JSON.", rich_help_panel=_STREAM)
    ] = "earliest",
    max_tuples: Annotated[
        int | None,
        typer.Option(help="Tuples a batch at most (default: a second of work; 2 M if free).", rich_help_panel=_STREAM),
    ] = None,
    distinct_keys: Annotated[
        int | None, typer.Option(help="DYNAMIC_KEY: how many keys to expect [100].", rich_help_panel=_GROUPING)
    ] = None,
    warm_up: Annotated[
        float | None, typer.Option(help="DYNAMIC_KEY: no scaling before (s) [15].", rich_help_panel=_GROUPING)
    ] = None,
    check_interval: Annotated[
        float | None, typer.Option(help="DYNAMIC_KEY: between checks of a key (s) [60].", rich_help_panel=_GROUPING)
    ] = None,
    promotion_period: Annotated[
        float | None, typer.Option(help="DYNAMIC_KEY: between promotions (s) [15].", rich_help_panel=_GROUPING)
    ] = None,
    grouping_option: Annotated[
        list[str] | None,
        typer.Option("--grouping-option", "-g", metavar="NAME=VALUE", help="Any other.", rich_help_panel=_GROUPING),
    ] = None,
    seed: Annotated[int, typer.Option(help="Chooses the hash functions.", rich_help_panel=_GROUPING)] = 0,
    work: Annotated[
        str | None, typer.Option(metavar="MODULE:FUNCTION", help="Your work at the workers (default: count).")
    ] = None,
    work_columns: Annotated[
        str, typer.Option(help="Message columns it needs besides key: value,offset,… (comma-separated).")
    ] = "",
    summary: Annotated[Path | None, typer.Option(help="Write the final summary here (JSON).")] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            help="Where the run's progress is kept; the same resumes it (path or URI).", rich_help_panel=_SPARK
        ),
    ] = None,
    trigger: Annotated[float, typer.Option(help="At least so long between batches (s).", rich_help_panel=_SPARK)] = 1.0,
    master: Annotated[
        str | None, typer.Option(help="Master URL (default in LOCAL: local[N]).", rich_help_panel=_SPARK)
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Any Spark setting.", rich_help_panel=_SPARK)
    ] = None,
    bootstrap_servers: BootstrapOption = None,
    kafka_config: KafkaConfigOption = None,
) -> None:
    """Run the topology: count a topic's keys over windows with a chosen grouping.

    Results go to the topics SOURCENAME-sS-wW-TYPE-aggregator and …-distribution (`unskew results` reads them).
    Interrupted, it goes on from its checkpoint when it is started again.

    Example: unskew topology LOCAL COUNTRY_SKEW_R80 DYNAMIC_KEY country-skew-80 5 10 x1
    """
    from apps.settings import Settings

    named_options = {
        "distinct_keys": distinct_keys,
        "warm_up": warm_up,
        "check_interval": check_interval,
        "promotion_period": promotion_period,
    }
    options = {name: value for name, value in named_options.items() if value is not None}
    grouping = scheme(grouping_type)
    options |= grouping_options(grouping, grouping_option or [])
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
        conf=dict(_pair("--conf", pair) for pair in conf or []),
        options=options,
        seed=seed,
        work=_function(work),
        work_columns=tuple(column for column in work_columns.split(",") if column),
    )
    execute(settings, summary)


def execute(settings: "Settings", summary: Path | None) -> None:
    """Run the topology with a display and an orderly end; print (and save) the summary."""
    from dataclasses import asdict

    from apps.progress import Display
    from apps.publisher import result_topics
    from apps.session import session
    from apps.summary import Tally
    from apps.topology import Run

    tally = Tally(settings.grouping)
    with Display(settings) as display, session(settings) as spark:

        def listener(report: Any) -> None:
            tally(report)
            display.batch(report)

        run = Run(spark, settings, listener)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: (display.stopping(), run.stop()))
        outcome = run.run(display.target)
    result = tally.summary()
    display.summary(result, outcome, result_topics(settings))
    if summary is not None:
        summary.write_bytes(orjson.dumps(asdict(result), option=orjson.OPT_INDENT_2))


def scheme(grouping_type: str) -> str:
    """The name of a grouping as the registry spells it.

    Raises
    ------
    UsageError
        There is none of that name.

    """
    try:
        return named(grouping_type).name
    except ValueError as error:
        raise UsageError(str(error)) from None


def grouping_options(grouping: str, pairs: list[str]) -> dict[str, Any]:
    """``NAME=VALUE`` pairs with each value read as the type of the parameter's default."""
    defaults = parameters(grouping)
    options: dict[str, Any] = {}
    for pair in pairs:
        name, text = _pair("--grouping-option", pair)
        if name not in defaults:
            raise UsageError(f"{grouping} has no parameter {name!r}; valid: {', '.join(defaults) or 'none'}")
        kind = type(defaults[name])
        try:
            options[name] = text if kind is str or defaults[name] is None else kind(text)
        except ValueError:
            raise UsageError(f"{name} is {text!r}; valid: a value like {defaults[name]!r}") from None
    return options


def _pair(option: str, pair: str) -> tuple[str, str]:
    name, equals, value = pair.partition("=")
    if not equals or not name:
        raise UsageError(f"{option} is {pair!r}; valid: NAME=VALUE")
    return name, value


def _function(path: str | None) -> Any:
    if path is None:
        return None
    module, colon, name = path.partition(":")
    if not colon:
        raise UsageError(f"--work is {path!r}; valid: MODULE:FUNCTION")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"--work {path!r} can't be loaded ({error})") from None
