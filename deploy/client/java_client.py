"""librdkafka's security settings in the words of Kafka's Java client, which Spark uses.

The two clients share most names. What differs: credentials (a JAAS line in Java), certificates (given to Java by value,
so that no file has to be on the executors) and spellings.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from unskew.errors import UsageError

ESCAPE = "java."  # a property with this prefix is for the Java client alone, as it is

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


def java_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """The Java client's properties for the same connection.

    Parameters
    ----------
    properties
        librdkafka's, and Java's own behind the prefix `java.`. librdkafka's tuning that Java doesn't know (`socket.*`,
        `queue.*`, ...) has no part in reaching a broker and is left out.

    Raises
    ------
    UsageError
        If a security setting has no counterpart, or a file can't be read or has a form that Java can't read.
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
        java["sasl.jaas.config"] = _jaas(properties, java.get("sasl.mechanism", "GSSAPI"))
    return java | own


def _jaas(properties: Mapping[str, str], mechanism: str) -> str:
    if mechanism not in _LOGIN:
        raise UsageError(
            f"sasl.mechanism {mechanism} with sasl.username: valid are {', '.join(_LOGIN)}; "
            f"for others give Spark's Java client its own {ESCAPE}sasl.jaas.config"
        )
    user, password = (_quoted(properties.get(f"sasl.{name}", "")) for name in ("username", "password"))
    return f"{_LOGIN[mechanism]} required username={user} password={password};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _pem(name: str, java_name: str, store: str, text: str) -> dict[str, str]:
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
        return _pem(f"{name} {value}", java_name, store, text)

    return translate


def _from_text(java_name: str, store: str) -> Callable[[str, str], dict[str, str]]:
    return lambda name, value: _pem(name, java_name, store, value)


def _renamed(java_name: str, change: Callable[[str], str] = str) -> Callable[[str, str], dict[str, str]]:
    return lambda _, value: {java_name: change(value)}


_TRUST, _KEYS = "ssl.truststore.type", "ssl.keystore.type"
_TRANSLATED: dict[str, Callable[[str, str], dict[str, str]]] = {
    "security.protocol": _renamed("security.protocol", str.upper),
    "sasl.mechanism": _renamed("sasl.mechanism"),
    "sasl.mechanisms": _renamed("sasl.mechanism"),
    "ssl.ca.location": _from_file("ssl.truststore.certificates", _TRUST),
    "ssl.ca.pem": _from_text("ssl.truststore.certificates", _TRUST),
    "ssl.certificate.location": _from_file("ssl.keystore.certificate.chain", _KEYS),
    "ssl.certificate.pem": _from_text("ssl.keystore.certificate.chain", _KEYS),
    "ssl.key.location": _from_file("ssl.keystore.key", _KEYS),
    "ssl.key.pem": _from_text("ssl.keystore.key", _KEYS),
    "ssl.keystore.location": lambda _, value: {"ssl.keystore.location": value, _KEYS: "PKCS12"},
    "ssl.endpoint.identification.algorithm": _renamed(
        "ssl.endpoint.identification.algorithm", lambda value: "" if value == "none" else value
    ),
}
