"""Options of several commands: which Kafka and which InfluxDB they use."""

import logging
from pathlib import Path
from typing import Annotated

import typer

from unskew.kafka.connection import BOOTSTRAP_VARIABLE
from unskew.option_style import METRICS

BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        metavar="HOST:PORT,...",
        help=f"Kafka brokers. Default: ${BOOTSTRAP_VARIABLE}, else the broker that `unskew kafka start` started.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Show it as JSON, for programs.")]
KafkaConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--kafka-config",
        metavar="FILE",
        help="File of Kafka's settings, lines NAME=VALUE with librdkafka's names, such as security.protocol=SASL_SSL.",
    ),
]

log = logging.getLogger(__name__)

InfluxUrl = Annotated[
    str | None,
    typer.Option(
        help="URL of InfluxDB 2, http://HOST:PORT (default: that of `unskew stack`, if it runs).",
        envvar="INFLUXDB_V2_URL",
        rich_help_panel=METRICS,
    ),
]


def _warn_of_secret(context: typer.Context, parameter: typer.CallbackParam, value: str | None) -> str | None:
    """Warn of a secret on the command line."""
    source = context.get_parameter_source(str(parameter.name))
    if source is not None and source.name == "COMMANDLINE":
        log.warning(
            "%s is seen by all who list this machine's processes; valid for a secret: $%s",
            parameter.opts[0],
            parameter.envvar,
        )
    return value


InfluxToken = Annotated[
    str | None,
    typer.Option(
        help="InfluxDB's token. Prefer the variable: an option is visible in the process list.",
        envvar="INFLUXDB_V2_TOKEN",
        rich_help_panel=METRICS,
        callback=_warn_of_secret,
    ),
]
InfluxOrg = Annotated[
    str | None,
    typer.Option(help="InfluxDB's organisation (default: unskew).", envvar="INFLUXDB_V2_ORG", rich_help_panel=METRICS),
]
InfluxBucket = Annotated[
    str | None,
    typer.Option(
        help="InfluxDB's bucket (default: unskew). A run makes a missing one, if the token allows it.",
        envvar="INFLUXDB_V2_BUCKET",
        rich_help_panel=METRICS,
    ),
]
