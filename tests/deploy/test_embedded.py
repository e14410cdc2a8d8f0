"""`unskew kafka` as its user meets it."""

import os
import signal
import socket
import subprocess

import pytest

from tests.commands import UNSKEW, unskew
from tests.waiting import PATIENCE, awaited
from unskew.deploy.directories import data_directory
from unskew.deploy.installation.jars import broker_jars
from unskew.deploy.kafka.connection import Connection
from unskew.deploy.kafka.topics import ensure_topic, topics
from unskew.deploy.servers import embedded
from unskew.errors import EnvironmentFault

pytestmark = pytest.mark.kafka


@pytest.fixture
def own_home(tmp_path, monkeypatch):
    broker_jars()
    fetched = data_directory() / "jars"
    directory = tmp_path / "home"
    directory.mkdir()
    (directory / "jars").symlink_to(fetched)
    monkeypatch.setenv("UNSKEW_HOME", str(directory))
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    yield directory
    embedded.stop()


def kafka_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return unskew("kafka", *arguments)


@pytest.mark.slow
def test_the_broker_outlives_the_command_and_is_found_again(own_home):
    command = [*UNSKEW, "kafka", "start"]  # a process of its own, that ends
    started = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert started.returncode == 0, started.stderr
    address = embedded.running()
    assert address
    assert f"Kafka is ready at {address.bootstrap_servers}" in started.stdout
    assert f"export KAFKA_BOOTSTRAP_SERVERS={address.bootstrap_servers}" in started.stdout
    connection = Connection.of()
    assert connection.bootstrap_servers == address.bootstrap_servers
    ensure_topic(connection, "kept", 2)

    again = kafka_command("start")
    assert (again.returncode, embedded.running()) == (0, address)
    assert "runs already" in again.stdout
    assert "kept (2)" in kafka_command("status").stdout
    other = kafka_command("start", "--data", str(own_home / "other"))
    assert (other.returncode, other.stderr.count("\n")) == (1, 1)
    assert "unskew kafka stop" in other.stderr

    assert "stopped" in kafka_command("stop").stdout
    assert embedded.running() is None
    silent = kafka_command("status")
    assert (silent.returncode, silent.stdout) == (1, "")
    assert "unskew kafka start" in silent.stderr
    with pytest.raises(EnvironmentFault, match="where is Kafka"):
        Connection.of()

    embedded.start()
    assert topics(Connection.of()) == {"kept": 2}
    assert kafka_command("stop").returncode == 0
    assert "no embedded broker is running" in kafka_command("stop").stdout


@pytest.mark.nightly(group="clusters")
def test_a_later_start_has_the_same_address_unless_another_program_has_its_port(own_home):
    first = embedded.start()
    embedded.stop()
    again = kafka_command("start")
    assert f"Kafka is ready at {first.bootstrap_servers}" in again.stdout
    assert "taken" not in again.stdout
    embedded.stop()
    with socket.create_server(("127.0.0.1", first.port)):
        elsewhere = kafka_command("start")
        assert elsewhere.returncode == 0, elsewhere.stderr
        address = embedded.running()
        assert address
        assert address.port != first.port
        for shown in (elsewhere.stdout, kafka_command("status").stdout):
            assert shown.count(f"port {first.port}, which Kafka had before, is taken by another program") == 1
        embedded.stop()
        kept = embedded.start()
    assert (kept.port, kept.moved_from) == (address.port, None)


@pytest.mark.nightly(group="clusters")
def test_a_broker_that_crashed_is_not_running(own_home):
    address = embedded.start(own_home / "data")
    os.kill(address.pid, signal.SIGKILL)
    assert awaited(lambda: embedded.running() is None, "the broker's end")


def test_a_taken_port_is_one_line(own_home):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = kafka_command("start", "--port", str(port))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert f"port {port} is taken" in done.stderr


@pytest.mark.parametrize("argument", ["--port=0", "--property=nonsense"])
def test_a_bad_option_is_a_usage_error(own_home, argument):
    assert kafka_command("start", argument).returncode == 2
    assert embedded.running() is None


@pytest.mark.nightly(group="clusters")
@pytest.mark.parametrize("name", [signal.SIGINT, signal.SIGTERM])
def test_in_the_foreground_it_ends_with_the_command(own_home, name):
    command = subprocess.Popen([*UNSKEW, "kafka", "start", "--foreground"], stdout=subprocess.PIPE, text=True)
    assert command.stdout
    while not command.stdout.readline().startswith("stop it:"):
        assert command.poll() is None
    assert embedded.running()
    command.send_signal(name)
    output, _ = command.communicate(timeout=PATIENCE)
    assert command.returncode == 0
    assert "stopped" in output
    assert embedded.running() is None
