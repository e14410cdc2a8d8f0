"""Brokers that ask who you are, reached through `--kafka-config` by all three clients: admin, producer and Spark."""

import shutil
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.apps.conftest import spark  # noqa: F401
from unskew.deploy.client.connection import Connection
from unskew.deploy.client.topics import end_offsets, ensure_topic, require_reachable
from unskew.deploy.servers.broker import Broker
from unskew.deploy.servers.ports import LOOPBACK, free_port
from unskew.errors import EnvironmentFault

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

USER, PASSWORD = "alice", 'it\'s "s3cret" \\ =x'


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> Path:
    """A certificate authority, and the broker's key and certificate by it."""
    if not shutil.which("openssl"):
        pytest.skip("no openssl to make certificates with")
    place = tmp_path_factory.mktemp("authority")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=place, check=True, capture_output=True)

    new = ("req", "-newkey", "rsa:2048", "-nodes")
    openssl(*new, "-x509", "-days", "2", "-subj", "/CN=test authority", "-keyout", "ca.key", "-out", "ca.pem")
    openssl(*new, "-subj", "/CN=broker", "-keyout", "broker.key", "-out", "broker.csr")
    (place / "names").write_text(f"subjectAltName=IP:{LOOPBACK}\n")
    signer = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names")
    openssl("x509", "-req", "-days", "2", "-in", "broker.csr", *signer, "-out", "broker.pem")
    key_store = (place / "broker.key").read_text() + (place / "broker.pem").read_text()
    (place / "broker-store.pem").write_text(key_store)
    return place


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    return {"SASL_PLAINTEXT": free_port(), "SASL_SSL": free_port()}


@pytest.fixture(scope="module")
def secured(authority, ports, tmp_path_factory):
    """A broker with a password listener (PLAIN) and an encrypted one (SCRAM)."""
    escaped = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    plain = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{escaped}";'
    properties = {
        "listeners": ",".join(f"{name}://{LOOPBACK}:{port}" for name, port in ports.items()),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain,
        "listener.name.sasl_ssl.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "listener.name.sasl_ssl.ssl.keystore.type": "PEM",
        "listener.name.sasl_ssl.ssl.keystore.location": str(authority / "broker-store.pem"),
    }
    with Broker(tmp_path_factory.mktemp("secured"), properties=properties) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        user = UserScramCredentialUpsertion(USER, scram, PASSWORD.encode())
        for done in admin.alter_user_scram_credentials([user]).values():
            done.result()
        yield broker


@pytest.fixture(params=["SASL_PLAINTEXT", "SASL_SSL"])
def connection(request, secured, authority, ports, tmp_path) -> Connection:
    lines = [f"security.protocol={request.param}", f"sasl.username={USER}", f"sasl.password={PASSWORD}"]
    if request.param == "SASL_SSL":
        lines += ["sasl.mechanism=SCRAM-SHA-512", f"ssl.ca.location={authority / 'ca.pem'}"]
    else:
        lines += ["sasl.mechanism=PLAIN"]
    path = tmp_path / "client.properties"
    path.write_text("\n".join(lines))
    return Connection.of(f"{LOOPBACK}:{ports[request.param]}", path)


def publish(connection: Connection, topic: str) -> None:
    ensure_topic(connection, topic, 2)
    producer = Producer(connection.client())
    producer.produce(topic, b"hello", partition=1)
    assert producer.flush(30) == 0


def test_admin_and_producer(connection, topic):
    publish(connection, topic)
    assert end_offsets(connection, topic) == {0: 0, 1: 1}


def test_a_wrong_password_is_one_line(connection):
    wrong = Connection(connection.bootstrap_servers, {**connection.properties, "sasl.password": "wrong"})
    with pytest.raises(EnvironmentFault, match=r"(?i)authentication.*--kafka-config") as fault:
        require_reachable(wrong)
    assert "\n" not in str(fault.value)


@pytest.mark.spark
def test_spark_reads_and_writes(connection, topic, spark):
    publish(connection, topic)
    messages = spark.read.format("kafka").options(**connection.spark()).option("subscribe", topic).load()
    messages.select("value").write.format("kafka").options(**connection.spark()).option("topic", topic).save()
    assert sum(end_offsets(connection, topic).values()) == 2
