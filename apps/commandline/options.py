"""Options that more than one command has, said once: of the stream, of the grouping, of Spark."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from unskew.deploy.commands.options import METRICS
from unskew.errors import UsageError

#: Panels of a command's help.
GROUPING = "Of the grouping"
STREAM = "Of the stream"
SPARK = "Of Spark"

SourceType = Annotated[str, typer.Argument(help="What the messages are: COUNTRY_SKEW_R80, …")]
Speed = Annotated[str, typer.Argument(help="xN: a worker does N tuples per process duration; x0: they're free.")]
ProcessDuration = Annotated[float, typer.Option(help="Simulated cost (ms); see speed.")]
WorkOption = Annotated[
    str | None, typer.Option("--work", metavar="MODULE:FUNCTION", help="Your work at the workers (default: count).")
]
WorkColumns = Annotated[
    str,
    typer.Option("--work-columns", help="Message columns it needs besides key: value,offset,… (comma-separated)."),
]
WorkErrors = Annotated[
    str, typer.Option(help="Where your work raises: 'fail' (nothing is lost), or 'reject' the message.")
]

Window = Annotated[float, typer.Option(help="Length of a window (s).", rich_help_panel=STREAM)]
Time = Annotated[
    str, typer.Option(help="Windows by 'batch' time (nothing is late) or 'event' time.", rich_help_panel=STREAM)
]
Lateness = Annotated[float, typer.Option(help="Event time: how late is allowed (s).", rich_help_panel=STREAM)]
MaxTuples = Annotated[
    int | None,
    typer.Option(help="Tuples a batch at most (default: a second of work; 5 M if free).", rich_help_panel=STREAM),
]

MaxAhead = Annotated[
    float,
    typer.Option(help="Event time: reject messages so far ahead of the batch's time (s).", rich_help_panel=STREAM),
]
OnDataLoss = Annotated[
    str,
    typer.Option(help="Messages that Kafka removed before their turn: 'fail', or 'skip' and count them.",
                 rich_help_panel=STREAM),
]  # fmt: skip

DistinctKeys = Annotated[
    int | None, typer.Option(help="DYNAMIC_KEY: how many keys to expect [100].", rich_help_panel=GROUPING)
]
WarmUp = Annotated[
    float | None, typer.Option(help="DYNAMIC_KEY: no scaling before (s) [15].", rich_help_panel=GROUPING)
]
CheckInterval = Annotated[
    float | None, typer.Option(help="DYNAMIC_KEY: between checks of a key (s) [60].", rich_help_panel=GROUPING)
]
PromotionPeriod = Annotated[
    float | None, typer.Option(help="DYNAMIC_KEY: between promotions (s) [15].", rich_help_panel=GROUPING)
]
GroupingOption = Annotated[
    list[str] | None,
    typer.Option("--grouping-option", "-g", metavar="NAME=VALUE", help="Any other.", rich_help_panel=GROUPING),
]
Seed = Annotated[int, typer.Option(help="Chooses the hash functions.", rich_help_panel=GROUPING)]

Trigger = Annotated[float, typer.Option(help="At least so long between batches (s).", rich_help_panel=SPARK)]
Master = Annotated[str | None, typer.Option(help="Master URL (default in LOCAL: local[N]).", rich_help_panel=SPARK)]
Conf = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Any Spark setting.", rich_help_panel=SPARK)]

MetricsOption = Annotated[
    bool, typer.Option("--metrics/--no-metrics", help="Tell of the run at all.", rich_help_panel=METRICS)
]
PrometheusPort = Annotated[
    int | None,
    typer.Option(
        help="Serve /metrics for Prometheus here; 0: any free port (default: 0 if `unskew stack` runs).",
        rich_help_panel=METRICS,
    ),
]
LiveOption = Annotated[
    bool,
    typer.Option(
        "--live", help="Watch workers, STD_DEV, rate, lag and hot keys in the terminal.", rich_help_panel=METRICS
    ),
]


def scheme(grouping_type: str) -> str:
    """The name of a grouping as the registry spells it.

    Raises
    ------
    UsageError
        There is none of that name.

    """
    from unskew.grouping import named

    try:
        return named(grouping_type).name
    except ValueError as error:
        raise UsageError(str(error)) from None


def runnable(grouping_type: str) -> str:
    """``scheme``, of those alone that a topology can run.

    Raises
    ------
    UsageError
        There is none of that name, or it needs feedback from the workers.

    """
    from unskew.grouping import standalone

    try:
        return standalone(grouping_type).name
    except ValueError as error:
        raise UsageError(str(error)) from None


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the named options that the user gave."""
    return {name: value for name, value in options.items() if value is not None}


def grouping_options(grouping: str, pairs: Iterable[str]) -> dict[str, Any]:
    """``NAME=VALUE`` pairs with each value read as the type of the parameter's default.

    Raises
    ------
    UsageError
        Not of that form, no such parameter, or a value of another type.

    """
    from unskew.grouping import parameters

    defaults = parameters(grouping)
    options: dict[str, Any] = {}
    for text in pairs:
        name, value = pair("--grouping-option", text)
        if name not in defaults:
            raise UsageError(f"{grouping} has no parameter {name!r}; valid: {', '.join(defaults) or 'none'}")
        kind = type(defaults[name])
        try:
            options[name] = value if kind is str or defaults[name] is None else kind(value)
        except ValueError:
            raise UsageError(f"{name} is {value!r}; valid: a value like {defaults[name]!r}") from None
    return options


def pair(option: str, text: str) -> tuple[str, str]:
    """``NAME=VALUE`` as (name, value).

    Raises
    ------
    UsageError
        It isn't of that form.

    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"{option} is {text!r}; valid: NAME=VALUE")
    return name, value


def function(path: str | None) -> Any:
    """The function that ``MODULE:FUNCTION`` names; None for None.

    Raises
    ------
    UsageError
        It can't be loaded.

    """
    import importlib
    import sys

    from pyspark import cloudpickle

    if path is None:
        return None
    module, colon, name = path.partition(":")
    if not colon:
        raise UsageError(f"--work is {path!r}; valid: MODULE:FUNCTION")
    # As python itself does for a script: modules in the current folder are found…
    sys.path.insert(0, "")
    try:
        loaded = importlib.import_module(module)
        work = getattr(loaded, name)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"--work {path!r} can't be loaded ({error})") from None
    # …and travel to the tasks as they are: the workers needn't have them.
    cloudpickle.register_pickle_by_value(loaded)
    return work
