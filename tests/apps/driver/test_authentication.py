"""What another user of this machine gets from the ports of a LOCAL run and of `unskew cluster`: a refusal.

The stranger speaks Spark's own protocol: one RPC, without the secret, to an endpoint that there isn't. Where nobody is
asked for a secret, Spark deserializes it and answers that it could not find the endpoint.
"""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterable
from unittest.mock import Mock

import psutil
import pytest

from tests.apps.clusters import cluster  # noqa: F401  a fixture
from tests.conftest import SHORT_LIVED
from tests.harness.topology import check, launch, truth  # noqa: F401  fixtures
from tests.waiting import PATIENCE
from unskew.apps.driver import session
from unskew.deploy.servers.spark_cluster import AUTHENTICATED, SECRET, SparkCluster, clusters_directory, read_secret
from unskew.loopback import LOOPBACK

pytestmark = pytest.mark.ci

another_user = pytest.mark.skipif(
    sys.platform == "win32" or os.getuid() != 0, reason="only root can become another user"
)

#: By port what Spark answers another user, as text: nothing where it closes the connection.
STRANGER = r"""
import encodings.idna, json, os, socket, struct, sys  # all now: the other user may not see Python's files
os.setgroups([]); os.setgid(65534); os.setuid(65534)
name, text = b"nobody", b"hello"
body = b"\0\0" + struct.pack(">H", len(name)) + name  # no address of a sender, none of a receiver, the endpoint
body += b"\xac\xed\0\x05t" + struct.pack(">H", len(text)) + text  # a java.lang.String, serialized
head = struct.pack(">BqI", 3, 1, len(body))  # RpcRequest, its number, the length of its body
frame = struct.pack(">q", 8 + len(head) + len(body)) + head + body
answers = {}
for port in sys.argv[1:]:
    with socket.create_connection(("127.0.0.1", int(port)), timeout=60) as connection:
        connection.sendall(frame)
        answer = b""
        try:
            while len(answer) < 8 or len(answer) < struct.unpack(">q", answer[:8])[0]:
                if not (more := connection.recv(65536)):
                    break
                answer += more
        except ConnectionError:
            pass
        answers[port] = answer.decode("latin-1")
print(json.dumps(answers))
"""


def answers(ports: Iterable[int]) -> dict[int, str]:
    command = [sys.executable, "-I", "-S", "-c", STRANGER, *map(str, ports)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert not done.returncode, done.stderr
    return {int(port): answer for port, answer in json.loads(done.stdout).items()}


def refused(answer: str) -> bool:
    return "Expected SaslMessage" in answer and "nobody" not in answer


@another_user
def test_a_local_run_answers_no_other_user(spark):
    blocks = spark._jvm.org.apache.spark.SparkEnv.get().blockManager().blockManagerId().port()
    found = answers([int(spark.sparkContext.getConf().get("spark.driver.port")), blocks])
    assert len(found) == 2
    assert all(map(refused, found.values())), found


@another_user
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.xdist_group("cluster")
def test_a_cluster_answers_no_other_user(cluster):
    def ports(pid: int) -> set[int]:
        connections = psutil.Process(pid).net_connections("inet")
        return {connection.laddr.port for connection in connections if connection.status == "LISTEN"}

    for child in cluster._children():
        found = answers(ports(child.pid))
        # Its pages answer in HTTP. A third port of the master's would take programs from anybody.
        assert len(found) == 2, found
        pages = {port for port, answer in found.items() if answer.startswith("HTTP/")}
        assert len(pages) == 1, found
        assert all(refused(answer) for port, answer in found.items() if port not in pages), found


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.xdist_group("cluster")
def test_no_command_line_shows_the_clusters_secret(cluster):
    assert os.environ[SECRET] not in cluster.conf.values()
    for child in cluster._children():
        assert os.environ[SECRET] not in " ".join(psutil.Process(child.pid).cmdline())


@pytest.mark.nightly(group="clusters")
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.xdist_group("cluster")
@pytest.mark.takes(60)
def test_a_topology_finds_the_secret_of_a_cluster_that_another_command_started(connection, topic, launch, truth):
    # The environment that tests hand on may have the secret already: here it is another one.
    with SparkCluster(clusters_directory(), workers=1, cores=2) as own:
        conf = ("spark.executor.memory=1024m", f"spark.executor.extraJavaOptions={SHORT_LIVED}")
        options = ["--master", own.master, *(f"--conf={each}" for each in conf)]
        topology = launch("SHUFFLE", *options, mode="CLUSTER", environment={SECRET: "another"})
        topology.await_end()
    check(connection, topic, "sg", truth)


def test_the_secret_of_a_cluster_is_its_users_own_and_lasts_as_long_as_it(tmp_path, monkeypatch):
    monkeypatch.setenv("UNSKEW_HOME", str(tmp_path))
    monkeypatch.setenv(SECRET, "a secret")
    one, other = SparkCluster(clusters_directory()), SparkCluster(clusters_directory())
    clusters_directory().mkdir()
    one._write_secret()
    other._write_secret()
    assert read_secret(one.master) == read_secret(other.master) == "a secret"
    assert stat.S_IMODE(one.secret_file.stat().st_mode) == 0o600
    one.stop()
    assert read_secret(one.master) is None
    assert read_secret(other.master) == "a secret"
    assert read_secret(other.master.replace(LOOPBACK, "192.0.2.7")) is None
    assert other._held is not None
    os.close(other._held)  # as if it were killed
    assert read_secret(other.master) is None
    one._write_secret()
    assert [left.name for left in clusters_directory().iterdir()] == [one.secret_file.name]
    one.stop()


def settings_of(monkeypatch: pytest.MonkeyPatch, master: str, **conf: str) -> tuple[dict[str, str], str | None]:
    """What a session would be started with: the settings about authentication, and the secret in the environment."""
    builder, known = Mock(), []
    for step in (builder.config, builder.master, builder.appName):
        step.return_value = builder

    def fail() -> None:
        known.append(os.environ.get(SECRET))
        raise RuntimeError("no Spark here")

    builder.getOrCreate.side_effect = fail
    monkeypatch.setattr(session.SparkSession, "builder", builder)
    monkeypatch.setattr(session, "read_secret", {"spark://ours": "a secret"}.get)
    given = {f"spark.{name.replace('_', '.')}": value for name, value in conf.items()}
    with pytest.raises(session.EnvironmentFault, match="no Spark here"):
        session.start_spark("tests", master, 2, given)
    settings = dict(call.args for call in builder.config.call_args_list)
    return {key: value for key, value in settings.items() if key.startswith("spark.auth")}, known[0]


def test_who_must_know_a_secret(monkeypatch):
    monkeypatch.delenv(SECRET, raising=False)
    assert settings_of(monkeypatch, "local[4,4]") == ({"spark.authenticate": "true"}, None)
    assert settings_of(monkeypatch, "local[4]", authenticate="false") == ({"spark.authenticate": "false"}, None)
    # The user's own cluster says itself what it wants.
    assert settings_of(monkeypatch, "spark://another") == ({}, None)
    assert settings_of(monkeypatch, "yarn") == ({}, None)
    assert settings_of(monkeypatch, "spark://ours") == (AUTHENTICATED, "a secret")
    own = {"spark.authenticate.secret": "mine"}
    assert settings_of(monkeypatch, "spark://ours", authenticate_secret="mine") == (own, None)
    assert SECRET not in os.environ
