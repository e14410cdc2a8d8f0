"""Connections to Kafka, for producers, admin clients, and Spark's source and sink.

Settings have librdkafka's names, for producers and admin clients. Spark uses Kafka's Java client, which shares most
names, but differs in spellings, in credentials (a JAAS line), and in certificates (which Java gets as text, so that
executors need no file).
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from unskew.errors import EnvironmentFault, UsageError
from unskew.kafka.embedded_broker import find_broker

BOOTSTRAP_VARIABLE = "KAFKA_BOOTSTRAP_SERVERS"
ESCAPE = "java."  # the prefix of properties for the Java client only
ISOLATION = "isolation.level"
_COMMITTED, _UNCOMMITTED = "read_committed", "read_uncommitted"  # librdkafka's and Java's default


@dataclass(frozen=True)
class Connection:
    """A Kafka cluster and how to log in to it.

    Parameters
    ----------
    bootstrap_servers
        `host:port`, or several separated by commas.
    properties
        librdkafka's settings (`security.protocol`, `sasl.username`, `ssl.ca.location`, ...). Those with the prefix
        `java.` are only for Spark's Java client.

    Examples
    --------
    >>> connection = Connection("broker:9093", {"security.protocol": "ssl"})
    >>> connection.client(linger=5)
    {'security.protocol': 'ssl', 'bootstrap.servers': 'broker:9093', 'linger': 5}
    >>> connection.spark()["kafka.security.protocol"]
    'SSL'
    """

    bootstrap_servers: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)  # may contain passwords

    @classmethod
    def of(cls, bootstrap_servers: str | None = None, config_file: Path | None = None) -> Self:
        """The connection of a command's options.

        Parameters
        ----------
        bootstrap_servers
            The brokers. Default: the first of `bootstrap.servers` in the file, `$KAFKA_BOOTSTRAP_SERVERS`, and the
            running embedded broker.
        config_file
            A file of lines `NAME=VALUE`. Empty lines and those that begin with `#` are comments.

        Raises
        ------
        EnvironmentFault
            Neither the options nor the variable name a Kafka, and no embedded broker runs.
        UsageError
            An address or a line of the file is invalid, a setting isn't one of librdkafka's, or a security setting has
            no counterpart in Java.
        """
        properties = _read_config(config_file) if config_file else {}
        from_file = properties.pop("bootstrap.servers", None)
        named = bootstrap_servers or from_file or os.environ.get(BOOTSTRAP_VARIABLE)
        if named:
            _check_address(named)
        elif embedded := find_broker():
            named = embedded.bootstrap_servers
        else:
            raise EnvironmentFault(
                "where is Kafka? Start the embedded broker with `unskew kafka start`, "
                f"or name your own with --bootstrap-servers HOST:PORT or in {BOOTSTRAP_VARIABLE}"
            )
        connection = cls(named, properties)
        if config_file:
            _check_properties(connection, config_file)
            connection.spark()  # so that settings without a counterpart in Java fail before the topology starts
        return connection

    def client(self, **extra: Any) -> dict[str, Any]:
        """The settings for confluent-kafka's clients, with `extra` ones: `linger=5`, `**{"linger.ms": 5}`."""
        own = {name: value for name, value in self.properties.items() if not name.startswith(ESCAPE)}
        return {**own, "bootstrap.servers": self.bootstrap_servers, **extra}

    def admin(self, **extra: Any) -> Any:
        """confluent-kafka's admin client. It doesn't log, because callers report errors."""
        from confluent_kafka.admin import AdminClient  # here: each command imports this module, few need it

        return AdminClient(self.client(log_level=0, **extra))

    @property
    def reads_committed(self) -> bool:
        """Whether readers leave out messages of aborted and open transactions, as by default.

        Raises ``UsageError`` if the isolation level isn't one of Kafka's, or only Java's client has one.
        """
        if ESCAPE + ISOLATION in self.properties:
            raise UsageError(f"{ESCAPE}{ISOLATION}: all clients read alike; give {ISOLATION}, without {ESCAPE}")
        level = self.properties.get(ISOLATION, _COMMITTED).lower()
        if level not in (_COMMITTED, _UNCOMMITTED):
            raise UsageError(f"{ISOLATION} is {level!r}; valid: {_COMMITTED}, {_UNCOMMITTED}")
        return level == _COMMITTED

    def spark(self) -> dict[str, str]:
        """Options for Spark's Kafka source and sink, without the topic. (The sink ignores the isolation level.)"""
        java = {
            **_java_properties(self.properties),
            ISOLATION: _COMMITTED if self.reads_committed else _UNCOMMITTED,
            "bootstrap.servers": self.bootstrap_servers,
        }
        return {f"kafka.{name}": value for name, value in java.items()}


def _read_config(path: Path) -> dict[str, str]:
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
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise UsageError(f"{server!r} is no Kafka address; valid is HOST:PORT, several separated by commas")


def _check_properties(connection: Connection, path: Path) -> None:
    from confluent_kafka import KafkaException

    try:
        connection.admin()
    except KafkaException as error:
        raise UsageError(f"{path}: {error.args[0].str()}") from error


_SAME = frozenset(
    {
        "client.dns.lookup", "client.id", "client.rack", "connections.max.idle.ms", "metadata.max.age.ms",
        "reconnect.backoff.max.ms", "reconnect.backoff.ms", "retry.backoff.ms", "socket.connection.setup.timeout.ms",
        "sasl.kerberos.service.name", "ssl.key.password", "ssl.keystore.password",
    }
)  # fmt: skip
_SECURITY = ("sasl.", "ssl.", "security.", "enable.ssl.", "enable.sasl.")
_LOGIN = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def _java_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """The Java client's properties for the same connection, from librdkafka's, and Java's with the prefix `java.`.

    librdkafka's tuning settings that Java lacks (`socket.*`, `queue.*`, ...) are left out, because connections don't
    need them. Raises ``UsageError`` if a security setting has no counterpart, or a file can't be read, by us or by
    Java.
    """
    own = {name.removeprefix(ESCAPE): value for name, value in properties.items() if name.startswith(ESCAPE)}
    java: dict[str, str] = {}
    for name, value in properties.items():
        if name in _SAME:
            java[name] = value
        elif name in _TRANSLATED:
            java |= _TRANSLATED[name](name, value)
        elif name.startswith(_SECURITY) and name not in {"sasl.username", "sasl.password"} and not own:
            raise UsageError(
                f"the Kafka setting {name} has no counterpart in the Java client that Spark uses; "
                f"add what that needs to the same file, with {ESCAPE} before its name"
            )
    if "sasl.username" in properties and "sasl.jaas.config" not in own:
        java["sasl.jaas.config"] = _jaas_line(properties, java.get("sasl.mechanism", "GSSAPI"))
    return java | own


def _jaas_line(properties: Mapping[str, str], mechanism: str) -> str:
    if mechanism not in _LOGIN:
        raise UsageError(
            f"sasl.mechanism {mechanism} with sasl.username: valid are {', '.join(_LOGIN)}; "
            f"for others give Spark's Java client its own {ESCAPE}sasl.jaas.config"
        )
    user, password = (_quote_value(properties.get(f"sasl.{name}", "")) for name in ("username", "password"))
    return f"{_LOGIN[mechanism]} required username={user} password={password};"


def _quote_value(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _pem_store(name: str, java_name: str, store: str, text: str) -> dict[str, str]:
    if "-----BEGIN " not in text:
        raise UsageError(f"{name} has no PEM text (-----BEGIN ...)")
    if java_name == "ssl.keystore.key" and "PRIVATE KEY-----" in text and not _is_pkcs8(text):
        raise UsageError(
            f"{name} is a key that Java can't read; convert it: `openssl pkcs8 -topk8 -in OLD -out NEW` "
            "(and -nocrypt for one without a password)"
        )
    return {store: "PEM", java_name: text}


def _is_pkcs8(key: str) -> bool:
    return "-----BEGIN PRIVATE KEY-----" in key or "-----BEGIN ENCRYPTED PRIVATE KEY-----" in key


def _from_file(java_name: str, store: str) -> Callable[[str, str], dict[str, str]]:
    def translate(name: str, value: str) -> dict[str, str]:
        try:
            text = Path(value).expanduser().read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{name} {value}: not a readable PEM file ({error})") from error
        return _pem_store(f"{name} {value}", java_name, store, text)

    return translate


def _from_text(java_name: str, store: str) -> Callable[[str, str], dict[str, str]]:
    return lambda name, value: _pem_store(name, java_name, store, value)


def _rename_property(java_name: str, change: Callable[[str], str] = str) -> Callable[[str, str], dict[str, str]]:
    return lambda _, value: {java_name: change(value)}


_TRUST, _KEYS = "ssl.truststore.type", "ssl.keystore.type"
_TRANSLATED: dict[str, Callable[[str, str], dict[str, str]]] = {
    "security.protocol": _rename_property("security.protocol", str.upper),
    "sasl.mechanism": _rename_property("sasl.mechanism"),
    "sasl.mechanisms": _rename_property("sasl.mechanism"),
    "ssl.ca.location": _from_file("ssl.truststore.certificates", _TRUST),
    "ssl.ca.pem": _from_text("ssl.truststore.certificates", _TRUST),
    "ssl.certificate.location": _from_file("ssl.keystore.certificate.chain", _KEYS),
    "ssl.certificate.pem": _from_text("ssl.keystore.certificate.chain", _KEYS),
    "ssl.key.location": _from_file("ssl.keystore.key", _KEYS),
    "ssl.key.pem": _from_text("ssl.keystore.key", _KEYS),
    "ssl.keystore.location": lambda _, value: {"ssl.keystore.location": value, _KEYS: "PKCS12"},
    "ssl.endpoint.identification.algorithm": _rename_property(
        "ssl.endpoint.identification.algorithm", lambda value: "" if value == "none" else value
    ),
}
