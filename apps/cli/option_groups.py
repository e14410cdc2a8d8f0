"""Groups of options that several commands share: for the grouping, the operator, metrics and Kafka.

pyspark and numba are imported where they are used, so that `--help` is fast.
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, fields
from inspect import isfunction, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from unskew.apps.cli.field_options import describe_parts, list_parts, read_parts
from unskew.apps.settings import Settings, spell_grouping
from unskew.errors import UsageError, suggest_names
from unskew.kafka.connection import BOOTSTRAP_VARIABLE, Connection
from unskew.loopback import LOOPBACK
from unskew.option_style import GROUPING, METRICS, SPARK, STREAM, WORK, style_of
from unskew.shell import parse_pairs, parse_value
from unskew.shown_keys import PLAIN, SECRET_VARIABLE, VARIABLE, choose_key_display

if TYPE_CHECKING:
    from unskew.apps.metrics.outputs import Destinations

#: NAME → the setting that an option sets. `-g` and `--work-option` also take the grouping's and the work's parameters.
_SOURCE_PARTS, _GROUPING_PARTS, _WORK_PARTS = map(list_parts, ("-s", "-g", "--work-option"))


def _make_work_option(parts: Mapping[str, "Field[Any]"]) -> Any:
    """The option ``--work-option`` of a command that has these settings of a run."""
    return typer.Option(
        "--work-option",
        metavar="NAME=VALUE",
        help="A parameter of a keyed operator, such as gap=30 of unskew.operators:Sessions. Also:\n\n"
        + describe_parts(parts),
        rich_help_panel=WORK,
    )


@dataclass(frozen=True)
class SourceOptions:
    """The messages' format."""

    source_option: Annotated[
        list[str] | None,
        typer.Option(
            "--source-option",
            "-s",
            metavar="NAME=VALUE",
            help="The format of messages, as -s key=user.id -s format=avro:\n\n" + describe_parts(_SOURCE_PARTS),
            rich_help_panel=STREAM,
        ),
    ] = None

    def settings(self) -> dict[str, Any]:
        """The settings of a run that these options give.

        Raises ``UsageError`` if there is no such name, or a value is wrong.
        """
        pairs = parse_pairs("--source-option", self.source_option or []).items()
        given, others = read_parts("-s", _SOURCE_PARTS, pairs)
        for name, _ in others:
            raise UsageError(f"--source-option has no {name!r}{suggest_names(name, _SOURCE_PARTS)}")
        return given


@dataclass(frozen=True)
class GroupingOptions:
    """The groupings' own parameters."""

    grouping_option: Annotated[
        list[str] | None,
        typer.Option(
            "--grouping-option",
            "-g",
            metavar="NAME=VALUE",
            help="The grouping's own parameter: slack (BOUNDED_LOAD, PLANNED), warm_up, check_interval (s; "
            "DYNAMIC_KEY), theta_max, table_max (MIXED and its like), …. The error about an unknown name lists them. "
            f"Every grouping has:\n\n{describe_parts(_GROUPING_PARTS)}",
            rich_help_panel=GROUPING,
        ),
    ] = None

    def settings(self) -> dict[str, Any]:
        """The settings of a run that these options give.

        Raises ``UsageError`` if a value is wrong.
        """
        return self._read()[0]

    def of(self, groupings: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Grouping → the given options that it has, and their values.

        Raises ``UsageError`` if none of the groupings has one of them, or a value is wrong.
        """
        return parse_parameters(self._read()[1], groupings, _GROUPING_PARTS)

    def _read(self) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        return read_parts("-g", _GROUPING_PARTS, parse_pairs("--grouping-option", self.grouping_option or []).items())


@dataclass(frozen=True)
class OperatorOptions:
    """The user's code at the workers, and the settings that belong to it."""

    work: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME",
            help="Code for the workers: a function, or a keyed operator (default: counting).",
            rich_help_panel=WORK,
        ),
    ] = None
    work_option: Annotated[list[str] | None, _make_work_option(_WORK_PARTS)] = None

    parts: ClassVar[Mapping[str, "Field[Any]"]] = _WORK_PARTS

    def settings(self) -> dict[str, Any]:
        """The settings of a run that these options give.

        Raises ``UsageError`` if the work can't be loaded, nothing has such an option, or a value is wrong.
        """
        options = parse_pairs("--work-option", self.work_option or [])
        given, _ = read_parts("--work-option", self.parts, options.items())
        return given | {"work": load_operator(self.work, options, self.parts)}


@dataclass(frozen=True)
class SampledOperatorOptions(OperatorOptions):
    """The user's code, measured on a sample. Of a run's settings only its columns matter."""

    parts: ClassVar[Mapping[str, "Field[Any]"]] = {"columns": _WORK_PARTS["columns"]}

    work_option: Annotated[list[str] | None, _make_work_option(parts)] = None


@dataclass(frozen=True)
class MetricsOptions:
    """Whether and where the run's metrics go."""

    metrics: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="Where the run's metrics go: http://HOST:PORT of InfluxDB 2, prometheus://HOST:PORT for a page "
            "/metrics that Prometheus scrapes (port 0: any free one; 0.0.0.0: open to other machines), "
            "otlp://HOST:PORT of an OpenTelemetry collector (otlps: with TLS), or none. Give at most one of each. "
            "InfluxDB's token, organisation and bucket are in INFLUXDB_V2_TOKEN, INFLUXDB_V2_ORG "
            "and INFLUXDB_V2_BUCKET.",
            show_default="$INFLUXDB_V2_URL, and the servers of `unskew stack`",
            rich_help_panel=METRICS,
        ),
    ] = None
    keys: Annotated[
        str,
        typer.Option(
            metavar="plain|hash|prefix:N|none",
            envvar=VARIABLE,
            help="How metrics, logs and displays show keys: unchanged, as a hash with the secret in "
            f"{SECRET_VARIABLE}, as their first N characters, or not at all. Results don't change.",
            rich_help_panel=METRICS,
        ),
    ] = PLAIN

    def __post_init__(self) -> None:
        """Set how keys are shown.

        Raises ``UsageError`` if there is no such way, or no secret for it.
        """
        choose_key_display(self.keys)

    def destinations(self) -> "Destinations":
        """Where the metrics go: by the option, and where it leaves that open, to the running `unskew stack`.

        Raises ``UsageError`` if it is no such address, or there are two of a kind.
        """
        from unskew.apps.metrics.outputs import Destinations

        given = self.metrics or []
        if given == ["none"]:
            return Destinations()
        influx = [url for url in given if url.startswith(("http://", "https://"))]
        pages = [url for url in given if url.startswith("prometheus://")]
        otlp = [url for url in given if re.fullmatch(r"otlps?://[^/]+:\d+/?", url)]
        wrong = [*(url for url in given if url not in influx + pages + otlp), *influx[1:], *pages[1:], *otlp[1:]]
        if wrong:
            valid = "one http://HOST:PORT of InfluxDB, one prometheus://HOST:PORT, one otlp://HOST:PORT; or none alone"
            raise UsageError(f"--metrics is {wrong[0]!r}; valid: {valid}")
        url = influx[0] if influx else os.environ.get("INFLUXDB_V2_URL")
        token, org, bucket = (os.environ.get(f"INFLUXDB_V2_{name}") for name in ("TOKEN", "ORG", "BUCKET"))
        port, host = _page(pages[0]) if pages else (None, LOOPBACK)
        return Destinations.of(url, token, org, bucket, port, host, next(iter(otlp), None))


def _page(url: str) -> tuple[int, str]:
    """Port and host of ``prometheus://HOST:PORT``."""
    found = re.fullmatch(r"prometheus://([^:/]*):(\d+)/?", url)
    if found is None:
        raise UsageError(f"--metrics is {url!r}; valid: prometheus://HOST:PORT, such as prometheus://127.0.0.1:9464")
    return int(found[2]), found[1] or LOOPBACK


@dataclass(frozen=True)
class EndOptions:
    """When the run ends."""

    until: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SECONDS|drained",
            help="Stop after this many seconds, or when the topic is 'drained': all messages published so far are "
            "counted, and their windows published. Given both, the first.",
            show_default="never",
        ),
    ] = None

    def settings(self) -> dict[str, Any]:
        """The settings of a run that these options give.

        Raises ``UsageError`` if it is neither a number nor ``drained``.
        """
        given = self.until or []
        numbers = [text for text in given if text != "drained"]
        seconds = [parse_value("--until", text, float, "drained, or a number of seconds") for text in numbers]
        return {"run_time": min(seconds, default=None), "until_drained": "drained" in given}


BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        metavar="HOST:PORT,...",
        help=f"Kafka brokers. Default: ${BOOTSTRAP_VARIABLE}, else the broker that `unskew kafka start` started.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
KafkaConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--kafka-config",
        metavar="FILE",
        help="File of Kafka settings: lines NAME=VALUE, named as in librdkafka, such as security.protocol=SASL_SSL.",
    ),
]


@dataclass(frozen=True)
class KafkaOptions:
    """How Kafka is reached."""

    bootstrap_servers: BootstrapOption = None
    kafka_config: KafkaConfigOption = None

    def connection(self) -> Connection:
        return Connection.of(self.bootstrap_servers, self.kafka_config)


Conf = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="Any Spark setting, such as spark.sql.shuffle.partitions=8: the number of state partitions, fixed "
        "by the checkpoint (default: the cores, on a cluster at least 4; W for keyed operators "
        "whose tuples have a cost).",
        rich_help_panel=SPARK,
    ),
]


def parse_schemes(groupings: str) -> list[str]:
    """Parse comma-separated groupings into the registry's spelling; at least one.

    Raises ``UsageError`` if the text has no name, or no grouping has one of the names.
    """
    names = [spell_grouping(name.strip()) for name in groupings.split(",") if name.strip()]
    if not names:
        raise UsageError("--groupings is empty; valid: names separated by commas, such as KEY,DYNAMIC_KEY")
    return names


def make_settings(given: Mapping[str, Any], work: OperatorOptions, **own: Any) -> Settings:
    """The settings of a run, checked, from a command's options and what it sets itself. Kafka's address is left out.

    It comes last, so that an error in the other settings shows first.
    """
    from unskew.apps.driver.dataflow import Dataflow

    settings = Settings(**given, **own, connection=Connection(""), **work.settings())
    try:
        Dataflow.of(settings)
    except UsageError as error:
        # The settings are checked by themselves: a name that the grouping has too, such as window, is the grouping's.
        if str(error).partition(" is ")[0] in settings.options:
            raise UsageError(f"-g {error}") from None
        raise
    return settings


def parse_parameters(
    given: Sequence[tuple[str, str]], groupings: Sequence[str], others: Iterable[str] = ()
) -> dict[str, dict[str, Any]]:
    """Grouping → those of the given parameters that it has, and their values.

    ``others`` is what else is valid as a name, for the error.

    Raises ``UsageError`` if none of the groupings has one of them, or a value is wrong.
    """
    from unskew.grouping import get_parameters

    for name, _ in given:
        if not any(name in get_parameters(grouping) for grouping in groupings):
            valid = sorted({*others, *(parameter for grouping in groupings for parameter in get_parameters(grouping))})
            has = f"{groupings[0]} has no parameter" if len(groupings) == 1 else f"none of {', '.join(groupings)} has"
            raise UsageError(f"{has} {name!r}{suggest_names(name, valid)}")
    own: dict[str, dict[str, Any]] = {}
    for grouping in groupings:
        defaults = get_parameters(grouping)
        own[grouping] = {name: _parse_value(name, text, defaults[name]) for name, text in given if name in defaults}
    return own


@contextmanager
def rename_settings() -> Iterator[None]:
    """Let an error about a setting name it as the command line does: by its placeholder, or as an option."""
    try:
        yield
    except UsageError as error:
        names = {f.name: f for f in fields(Settings)} | {"sourceType": "SOURCE_TYPE", "sourceName": "SOURCE_NAME"}
        found = re.match(r"(unknown )?(\w+) (?=is |')", str(error))
        if found is None or found[2] not in names:
            raise
        raise UsageError(f"{found[1] or ''}{_spell_setting(names[found[2]])} {str(error)[found.end() :]}") from None


def _spell_setting(setting: "Field[Any] | str") -> str:
    if isinstance(setting, str):
        return setting
    shown = style_of(setting)
    if setting.default is MISSING:
        return shown.metavar or setting.name.upper()
    if shown.part_of:
        return f"{shown.part_of} {shown.name}".rstrip()
    return f"--{shown.name or setting.name.replace('_', '-')}"


def load_operator(path: str | None, options: Mapping[str, str], others: Collection[str] = ()) -> Any:
    """The work at ``MODULE:NAME``: a function over batches, or a keyed operator with options; None without a path.

    ``others`` are the names of options that aren't the work's own, but the run's.

    Raises ``UsageError`` if the work can't be loaded, it has no such option, an option has a bad value, or is the
    work's and the run's.
    """
    from unskew.apps.operators.loader import import_object, import_operator, list_parameters

    own = {name: text for name, text in options.items() if name not in others}
    if path is None:
        if own:
            raise UsageError(f"--work-option is {next(iter(own))!r}, but there is no --work: give both")
        return None
    work = import_object(path)
    # A function over batches has a parameter without a default: the batch. One that makes a keyed operator has none.
    if isfunction(work) and any(p.default is p.empty for p in signature(work).parameters.values()):
        for name in own:
            raise UsageError(f"the function {path} has no option {name!r}{suggest_names(name, others)}")
        return work
    for name in options:
        if name in others and name in list_parameters(work):
            raise UsageError(
                f"--work-option {name} is an option of the run, and a parameter of {path} too; valid: another name for "
                "the parameter, or a function that makes the work without it"
            )
    return import_operator(path, own, others)


def _parse_value(name: str, text: str, default: Any) -> Any:
    """A parameter's value as the type of its default; without one a number, or several: ``1,2.5``."""
    if default is None:
        return parse_value(name, text, _parse_numbers, "a number, or several separated by commas")
    return parse_value(
        name, text, _parse_bool if isinstance(default, bool) else type(default), f"a value like {default!r}"
    )


def _parse_numbers(text: str) -> Any:
    numbers = [float(part) if set(part) & set(".eE") else int(part) for part in text.split(",")]
    return numbers if len(numbers) > 1 else numbers[0]


def _parse_bool(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]
