"""Options of several commands: which Kafka they use, and JSON as their output."""

from pathlib import Path
from typing import Annotated

import typer

from unskew.kafka.connection import BOOTSTRAP_VARIABLE

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
