"""What is killed in a topology, and comes back: all of it, its JVM, its Python workers, the broker."""

import os
import signal
from collections.abc import Iterator

import pytest

from tests.apps.process import Topology, parent
from tests.waiting import PATIENCE, awaited
from unskew.deploy.kafka.connection import Connection
from unskew.deploy.servers.broker import Broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One of our own, to be killed."""
    with Broker(tmp_path_factory.mktemp("kafka")) as started:
        yield started


@pytest.fixture
def connection(broker: Broker) -> Connection:
    return Connection(broker.bootstrap_servers)


def everything(topology: Topology, broker: Broker) -> None:
    topology.kill()
    topology.start()


def python_workers(topology: Topology, broker: Broker) -> None:
    for pid in awaited(topology.python_workers, "a Python worker")[:2]:
        os.kill(pid, signal.SIGKILL)


def the_broker(topology: Topology, broker: Broker) -> None:
    """It is away for the seconds that its start takes."""
    broker.kill()
    broker.restart()


def jvm_of(topology: Topology) -> int:
    # A child that it is just starting has its command line for a moment.
    found = topology.children("org.apache.spark.deploy.SparkSubmit")
    [jvm] = [pid for pid in found if parent(pid) == topology.process.pid]
    return jvm


def the_jvm(topology: Topology, broker: Broker) -> None:
    os.kill(jvm_of(topology), signal.SIGKILL)
    assert topology.process.wait(PATIENCE) == 1
    output = topology.output()
    assert "Traceback" not in output
    assert "Exception" not in output
    assert output.splitlines()[-1].startswith("unskew: Spark's JVM died (signal 9;")
    topology.start()
