"""How to reach Kafka: said once by the user, handed alike to producers, admin clients, and Spark's source and sink."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from unskew.deploy.client.java_client import ESCAPE, java_properties
from unskew.deploy.servers.embedded import running
from unskew.errors import EnvironmentFault, UsageError

BOOTSTRAP_VARIABLE = "KAFKA_BOOTSTRAP_SERVERS"


@dataclass(frozen=True)
class Connection:
    """A Kafka cluster and how to log in to it.

    Parameters
    ----------
    bootstrap_servers
        `host:port`, several separated by commas.
    properties
        librdkafka's settings (`security.protocol`, `sasl.username`, `ssl.ca.location`, ...). Those that begin with
        `java.` are for Spark's Java client alone.

    Examples
    --------
    >>> connection = Connection("broker:9093", {"security.protocol": "ssl"})
    >>> connection.client(linger=5)
    {'security.protocol': 'ssl', 'bootstrap.servers': 'broker:9093', 'linger': 5}
    >>> connection.spark()
    {'kafka.security.protocol': 'SSL', 'kafka.bootstrap.servers': 'broker:9093'}
    """

    bootstrap_servers: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)  # they hold passwords

    @classmethod
    def of(cls, bootstrap_servers: str | None = None, config_file: Path | None = None) -> Self:
        """The connection that a command's options name.

        Parameters
        ----------
        bootstrap_servers
            The brokers; without them `bootstrap.servers` of the file, `$KAFKA_BOOTSTRAP_SERVERS`, or the embedded
            broker if it runs, whichever comes first.
        config_file
            Lines `NAME=VALUE`; empty ones and those that begin with `#` are comments.

        Raises
        ------
        EnvironmentFault
            If nothing says where Kafka is.
        UsageError
            If an address or a line of the file is wrong, or a setting isn't one of librdkafka's.
        """
        properties = _read(config_file) if config_file else {}
        from_file = properties.pop("bootstrap.servers", None)
        named = bootstrap_servers or from_file or os.environ.get(BOOTSTRAP_VARIABLE)
        if named:
            _check_address(named)
        elif embedded := running():
            named = embedded.bootstrap_servers
        else:
            raise EnvironmentFault(
                "where is Kafka? Start the embedded broker with `unskew kafka start`, "
                f"or name your own with --bootstrap-servers HOST:PORT or in {BOOTSTRAP_VARIABLE}"
            )
        connection = cls(named, properties)
        if config_file:
            _check_properties(connection, config_file)
            connection.spark()  # a setting that Spark can't have should fail here, not after the topology's start
        return connection

    def client(self, **extra: Any) -> dict[str, Any]:
        """Settings for confluent-kafka's clients; names with dots are given as `**{"linger.ms": 5}`."""
        own = {name: value for name, value in self.properties.items() if not name.startswith(ESCAPE)}
        return {**own, "bootstrap.servers": self.bootstrap_servers, **extra}

    def spark(self) -> dict[str, str]:
        """Options of Spark's Kafka source and sink, all but the topic's."""
        java = {**java_properties(self.properties), "bootstrap.servers": self.bootstrap_servers}
        return {f"kafka.{name}": value for name, value in java.items()}


def _read(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--kafka-config {path} cannot be read: {error}") from error
    properties: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            raise UsageError(f"{path}, line {number}: {text!r} is not NAME=VALUE")
        properties[name.strip()] = value.strip()
    return properties


def _check_address(servers: str) -> None:
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise UsageError(f"{server!r} is no Kafka address; valid is HOST:PORT, several separated by commas")


def _check_properties(connection: Connection, path: Path) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    try:
        AdminClient(connection.client(log_level=0))
    except KafkaException as error:
        raise UsageError(f"{path}: {error.args[0].str()}") from error
