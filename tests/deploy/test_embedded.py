"""`unskew kafka` as its user meets it."""

import signal
import subprocess

import pytest

from tests.commands import UNSKEW, unskew
from tests.waiting import PATIENCE
from unskew.deploy.installation.jars import broker_jars
from unskew.deploy.servers import embedded_broker
from unskew.directories import data_directory
from unskew.errors import EnvironmentFault
from unskew.kafka.connection import Connection
from unskew.kafka.topics import ensure_topic, list_topics

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
    embedded_broker.stop_broker()


def kafka_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return unskew("kafka", *arguments)


@pytest.mark.ci
@pytest.mark.slow
def test_the_broker_outlives_the_command_and_is_found_again(own_home):
    command = [*UNSKEW, "kafka", "start"]  # a process of its own, that ends
    started = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert started.returncode == 0, started.stderr
    address = embedded_broker.find_broker()
    assert address
    assert f"Kafka is ready at {address.bootstrap_servers}" in started.stdout
    assert f"export KAFKA_BOOTSTRAP_SERVERS={address.bootstrap_servers}" in started.stdout
    connection = Connection.of()
    assert connection.bootstrap_servers == address.bootstrap_servers
    ensure_topic(connection, "kept", 2)

    again = kafka_command("start")
    assert (again.returncode, embedded_broker.find_broker()) == (0, address)
    assert "runs already" in again.stdout
    assert "kept (2)" in kafka_command("status").stdout
    other = kafka_command("start", "--data", str(own_home / "other"))
    assert (other.returncode, other.stderr.count("\n")) == (1, 1)
    assert "unskew kafka stop" in other.stderr

    assert "stopped" in kafka_command("stop").stdout
    assert embedded_broker.find_broker() is None
    silent = kafka_command("status")
    assert (silent.returncode, silent.stdout) == (1, "")
    assert "unskew kafka start" in silent.stderr
    with pytest.raises(EnvironmentFault, match="where is Kafka"):
        Connection.of()

    embedded_broker.start_broker()
    assert list_topics(Connection.of()) == {"kept": 2}
    assert kafka_command("stop").returncode == 0
    assert "no embedded broker is running" in kafka_command("stop").stdout


@pytest.mark.parametrize("argument", ["--port=0", "--property=nonsense"])
def test_a_bad_option_is_a_usage_error(own_home, argument):
    assert kafka_command("start", argument).returncode == 2
    assert embedded_broker.find_broker() is None


@pytest.mark.nightly(group="clusters")
@pytest.mark.parametrize("name", [signal.SIGINT, signal.SIGTERM])
def test_in_the_foreground_it_ends_with_the_command(own_home, name):
    command = subprocess.Popen([*UNSKEW, "kafka", "start", "--foreground"], stdout=subprocess.PIPE, text=True)
    assert command.stdout
    while not command.stdout.readline().startswith("stop it:"):
        assert command.poll() is None
    assert embedded_broker.find_broker()
    command.send_signal(name)
    output, _ = command.communicate(timeout=PATIENCE)
    assert command.returncode == 0
    assert "stopped" in output
    assert embedded_broker.find_broker() is None
