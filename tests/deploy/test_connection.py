from pathlib import Path

import pytest

from unskew.errors import EnvironmentFault, UsageError
from unskew.kafka import connection as connection_module
from unskew.kafka.connection import Connection

KEY = "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\n"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n"


@pytest.fixture(autouse=True)
def no_embedded_broker(monkeypatch):
    monkeypatch.setattr(connection_module, "find_broker", lambda: None)
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)


def config(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "client.properties"
    path.write_text(text)
    return path


def test_the_option_comes_before_the_file_and_the_file_before_the_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "variable:1")
    path = config(tmp_path, "bootstrap.servers=file:2\n")
    assert Connection.of().bootstrap_servers == "variable:1"
    assert Connection.of(None, path).bootstrap_servers == "file:2"
    assert Connection.of("option:3,other:4", path).bootstrap_servers == "option:3,other:4"


def test_nowhere_to_go_names_the_three_ways():
    with pytest.raises(EnvironmentFault, match=r"unskew kafka start.*--bootstrap-servers.*KAFKA_BOOTSTRAP_SERVERS"):
        Connection.of()


def test_the_same_login_for_both_clients(tmp_path):
    path = config(
        tmp_path,
        """
        # as from a provider
        security.protocol = sasl_ssl
        sasl.mechanisms=PLAIN
        sasl.username=me
        sasl.password=a"b\\c=d
        socket.timeout.ms=5000
        """,
    )
    connection = Connection.of("host:1", path)
    assert connection.client(linger=1) == {
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "me",
        "sasl.password": 'a"b\\c=d',
        "socket.timeout.ms": "5000",
        "bootstrap.servers": "host:1",
        "linger": 1,
    }
    assert connection.spark() == {
        "kafka.bootstrap.servers": "host:1",
        "kafka.isolation.level": "read_committed",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="me" password="a\\"b\\\\c=d";',
    }
    login = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "u", "sasl.password": "p"}
    assert "ScramLoginModule" in Connection("host:1", login).spark()["kafka.sasl.jaas.config"]


def test_certificates_are_given_to_java_by_value(tmp_path):
    (tmp_path / "ca.pem").write_text(CERTIFICATE)
    (tmp_path / "key.pem").write_text(KEY)
    tls = {
        "security.protocol": "SSL",
        "ssl.ca.location": str(tmp_path / "ca.pem"),
        "ssl.certificate.pem": CERTIFICATE,
        "ssl.key.location": str(tmp_path / "key.pem"),
        "ssl.key.password": "secret",
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert Connection("host:1", tls).spark() == {
        "kafka.bootstrap.servers": "host:1",
        "kafka.isolation.level": "read_committed",
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": CERTIFICATE,
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": CERTIFICATE,
        "kafka.ssl.keystore.key": KEY,
        "kafka.ssl.key.password": "secret",
        "kafka.ssl.endpoint.identification.algorithm": "",
    }


def test_what_java_cannot_have_is_a_clear_error(subtests):
    for properties, message in (
        ({"ssl.ca.location": "/nowhere/ca.pem"}, "not a readable PEM file"),
        ({"ssl.ca.pem": "nonsense"}, "no PEM text"),
        ({"ssl.key.pem": "-----BEGIN RSA PRIVATE KEY-----\n"}, "openssl pkcs8"),
        ({"enable.ssl.certificate.verification": "false"}, "no counterpart"),
        ({"sasl.mechanism": "GSSAPI", "sasl.username": "u"}, "valid are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
    ):
        with subtests.test(message), pytest.raises(UsageError, match=f"^[^\n]*{message}[^\n]*$"):
            Connection("host:1", properties).spark()


def test_the_isolation_level_is_the_same_for_all(tmp_path):
    path = config(tmp_path, "isolation.level=READ_UNCOMMITTED\n")
    connection = Connection.of("host:1", path)
    assert connection.client()["isolation.level"] == "READ_UNCOMMITTED"
    assert connection.spark()["kafka.isolation.level"] == "read_uncommitted"
    assert (connection.reads_committed, Connection("host:1").reads_committed) == (False, True)


def test_what_only_java_has_goes_to_spark_alone(tmp_path):
    path = config(
        tmp_path,
        "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.config=x\n"
        "java.sasl.jaas.config=some.Module required;\n",
    )
    connection = Connection.of("host:1", path)
    assert connection.spark()["kafka.sasl.jaas.config"] == "some.Module required;"
    assert not any(name.startswith("java.") for name in connection.client())


def test_what_is_invalid_is_named(tmp_path, subtests):
    for address in ("host", "host:", ":9092", "host:many", "host:0", "a:1,b", "host:70000"):
        with subtests.test(address), pytest.raises(UsageError, match="valid is HOST:PORT"):
            Connection.of(address)
    for text, message in (
        ("security.protocol", "line 1: 'security.protocol' is not NAME=VALUE"),
        ("no.such.setting=1", "client.properties: .*no.such.setting"),
        ("sasl.jaas.config=x", "client.properties: .*JAAS"),
        ("security.protocol=nonsense", "client.properties: .*nonsense"),
        ("isolation.level=serializable", "serializable"),
        ("java.isolation.level=read_committed", r"java.isolation.level: all clients read alike; give isolation.level"),
    ):
        with subtests.test(text), pytest.raises(UsageError, match=message):
            Connection.of("host:1", config(tmp_path, text))
    with pytest.raises(UsageError, match="cannot be read"):
        Connection.of("host:1", tmp_path / "nothing")


def test_passwords_are_not_shown():
    assert "secret" not in repr(Connection("host:1", {"sasl.password": "secret"}))
