"""What is killed in a topology, and comes back: all of it, its JVM, its Python workers, the broker."""

import random
from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.harness.topology import Topology
from unskew.deploy.servers.broker import Broker
from unskew.kafka.connection import Connection


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
    topology.kill_python_workers(2)


def the_broker(topology: Topology, broker: Broker) -> None:
    """It is away for the seconds that its start takes."""
    broker.kill()
    broker.restart()


def the_jvm(topology: Topology, broker: Broker) -> None:
    topology.jvm().kill()
    output = topology.ended_with(1)
    assert "Exception" not in output
    assert output.splitlines()[-1].startswith("unskew: Spark's JVM died (signal 9;")
    topology.start()


def harm_in_batches(
    topology: Topology, broker: Broker, harms: Sequence[Callable[[Topology, Broker], None]], rng: random.Random
) -> None:
    """Let a topology come to its end, and each harm before it, anywhere in a batch."""
    for harm in harms:
        topology.await_batches(rng.randint(1, 2), longer=rng.random())
        harm(topology, broker)
    topology.await_end()
