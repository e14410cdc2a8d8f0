"""Options that more than one command has to say which Kafka and which InfluxDB are meant."""

from pathlib import Path
from typing import Annotated

import typer

from unskew.deploy.client.connection import BOOTSTRAP_VARIABLE

BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        metavar="HOST:PORT,...",
        help=f"Kafka brokers. Default: ${BOOTSTRAP_VARIABLE}, else the broker that `unskew kafka start` started.",
    ),
]
KafkaConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--kafka-config",
        metavar="FILE",
        help="Kafka's security settings: lines NAME=VALUE with librdkafka's names, such as security.protocol=SASL_SSL.",
    ),
]

#: Where a command's help shows its options for metrics.
METRICS = "Of the metrics"

InfluxUrl = Annotated[
    str | None,
    typer.Option(
        help="InfluxDB 2, http://HOST:PORT (default: that of `unskew stack`, if it runs).",
        envvar="INFLUXDB_V2_URL",
        rich_help_panel=METRICS,
    ),
]
InfluxToken = Annotated[
    str | None, typer.Option(help="Its token.", envvar="INFLUXDB_V2_TOKEN", rich_help_panel=METRICS)
]
InfluxOrg = Annotated[
    str | None,
    typer.Option(help="Its organisation (default: unskew).", envvar="INFLUXDB_V2_ORG", rich_help_panel=METRICS),
]
InfluxBucket = Annotated[
    str | None,
    typer.Option(
        help="Its bucket (default: unskew); a run makes it if it is missing and allowed.",
        envvar="INFLUXDB_V2_BUCKET",
        rich_help_panel=METRICS,
    ),
]
