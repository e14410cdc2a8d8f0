"""Brokers that ask who you are, reached through `--kafka-config` by all three clients: admin, producer and Spark."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.apps.conftest import countries, final_counts, publish, spark  # noqa: F401
from tests.commands import UNSKEW
from tests.waiting import PATIENCE, awaited
from unskew.deploy.servers.broker import Broker
from unskew.directories import data_directory
from unskew.errors import EnvironmentFault
from unskew.kafka.connection import Connection
from unskew.kafka.topics import end_offsets, ensure_topic, require_reachable
from unskew.loopback import LOOPBACK, free_port

pytestmark = [pytest.mark.nightly(group="clusters"), pytest.mark.kafka, pytest.mark.slow]

USER, PASSWORD = "alice", 'it\'s "s3cret" \\ =x'


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> Path:
    """A certificate authority, and the broker's key and certificate by it."""
    if not shutil.which("openssl"):
        pytest.skip("no openssl to make certificates with")
    directory = tmp_path_factory.mktemp("authority")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)

    new = ("req", "-newkey", "rsa:2048", "-nodes")
    openssl(*new, "-x509", "-days", "2", "-subj", "/CN=test authority", "-keyout", "ca.key", "-out", "ca.pem")
    openssl(*new, "-subj", "/CN=broker", "-keyout", "broker.key", "-out", "broker.csr")
    (directory / "names").write_text(f"subjectAltName=IP:{LOOPBACK}\n")
    signer = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names")
    openssl("x509", "-req", "-days", "2", "-in", "broker.csr", *signer, "-out", "broker.pem")
    key_store = (directory / "broker.key").read_text() + (directory / "broker.pem").read_text()
    (directory / "broker-store.pem").write_text(key_store)
    return directory


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


def greet(connection: Connection, topic: str) -> None:
    ensure_topic(connection, topic, 2)
    producer = Producer(connection.client())
    producer.produce(topic, b"hello", partition=1)
    assert producer.flush(PATIENCE) == 0


def test_a_wrong_password_is_one_line(connection):
    wrong = Connection(connection.bootstrap_servers, {**connection.properties, "sasl.password": "wrong"})
    with pytest.raises(EnvironmentFault, match=r"(?i)authentication.*--kafka-config") as fault:
        require_reachable(wrong)
    assert "\n" not in str(fault.value)


def test_spark_reads_and_writes(connection, topic, spark):
    greet(connection, topic)
    messages = spark.read.format("kafka").options(**connection.spark()).option("subscribe", topic).load()
    sink = messages.select("value").write.format("kafka").mode("append").options(**connection.spark())
    sink.option("topic", topic).save()
    assert sum(end_offsets(connection, topic).values()) == 2


@pytest.mark.spark
@pytest.mark.slow
def test_no_secret_is_written_down(secured, ports, topic, tmp_path):
    """Neither the password nor InfluxDB's token: in no file of a run, in no message, in no process' arguments."""
    config = tmp_path / "client.properties"
    config.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username={USER}\nsasl.password={PASSWORD}\n"
    )
    at = f"{LOOPBACK}:{ports['SASL_PLAINTEXT']}"
    publish(Connection.of(at, config), topic, 2, countries(["Chad"] * 500))
    run = tmp_path / "run"
    (run / "home").mkdir(parents=True)
    for name in ("jars", "class-data"):
        (run / "home" / name).symlink_to(data_directory() / name)
    environment = {
        **os.environ,
        "UNSKEW_HOME": str(run / "home"),
        "INFLUXDB_V2_URL": f"http://{LOOPBACK}:{free_port()}",
        "INFLUXDB_V2_TOKEN": "token-s3cret",
    }
    command = [
        *(*UNSKEW, "topology", "LOCAL", "COUNTRY_SKEW_R80", "KEY", topic, "2", "2", "x0", "--until", "drained"),
        *("--window", "0.5", "--trigger", "0.1", "--bootstrap-servers", at, "--kafka-config", config),
        *("--checkpoint", run / "checkpoint", "--conf", f"spark.local.dir={run / 'local'}"),
    ]
    seen = ""

    def processes() -> list[str]:
        listed = subprocess.run(["ps", "-axww", "-o", "command="], capture_output=True, text=True, check=True)
        return [line for line in listed.stdout.splitlines() if topic in line or "spark" in line]

    with (
        (run / "output").open("w") as output,
        subprocess.Popen(command, env=environment, stdout=output, stderr=output) as job,
    ):
        while job.poll() is None:
            seen += "\n".join(processes())
            time.sleep(0.5)
    # its JVM still removes what it had on disk
    awaited(lambda: not any(str(run) in line for line in processes()), "the end of the run's JVM")
    assert job.returncode == 0, (run / "output").read_text()
    assert final_counts(Connection.of(at, config), f"{topic}-s2-w2-kg-aggregator")
    files = [file for file in run.rglob("*") if file.is_file()]  # not the jars and classes, which are links
    assert {"output", "run.json"} < {file.name for file in files}
    assert any(file.name.startswith("spark-") for file in files)
    assert [file for file in files if b"s3cret" in file.read_bytes()] == []
    assert "SparkSubmit" in seen
    assert "s3cret" not in seen
