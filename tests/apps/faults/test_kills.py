"""Real kills: whatever dies and whenever, the final counts are those of what was published."""

import os
import random
import re
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from tests.apps.process import Topology, check, launch, parent, truth  # noqa: F401  fixtures
from tests.waiting import PATIENCE, awaited
from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.deploy.client.connection import Connection
from unskew.deploy.servers.broker import Broker

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(1800)]


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
    broker.kill()
    time.sleep(2)
    broker.restart()


def the_jvm(topology: Topology, broker: Broker) -> None:
    # A child that it is just starting has its command line for a moment.
    found = topology.children("org.apache.spark.deploy.SparkSubmit")
    [jvm] = [pid for pid in found if parent(pid) == topology.process.pid]
    os.kill(jvm, signal.SIGKILL)
    assert topology.process.wait(PATIENCE) == 1
    output = topology.output()
    assert "Traceback" not in output
    assert "Exception" not in output
    assert output.splitlines()[-1].startswith("unskew: Spark's JVM died (signal 9;")
    topology.start()


def ctrl_c(topology: Topology, broker: Broker) -> None:
    topology.process.send_signal(signal.SIGINT)
    assert topology.process.wait(PATIENCE) == 0
    output = topology.output()
    assert "Traceback" not in output
    assert re.search(r"stopped after \d+ batch(es)?; start it again, and it goes on from its checkpoint\.", output)
    topology.start()


EACH: list[Callable[[Topology, Broker], None]] = [everything, python_workers, the_broker, the_jvm, ctrl_c]
HARMS = [
    *[everything] * 4,
    *[python_workers] * 7,
    *[the_broker] * 3,
    the_jvm,
    ctrl_c,
]


# The last two plan in nearly every batch.
GROUPINGS = [
    ("PARTIAL_KEY", "pkg"),
    ("DYNAMIC_KEY", "dkg"),
    ("BOUNDED_LOAD", "bl"),
    ("MIXED", "mixed", "-g", "theta_max=0", "-g", "window=1"),
    ("POSG", "posg", "-g", "window=16", "-g", "tolerance=10"),
]


@pytest.mark.parametrize(
    ("harms", "most"),
    [
        pytest.param(EACH, 1_200, id="each once", marks=pytest.mark.takes(60)),
        pytest.param(HARMS, 400, id="again and again", marks=[pytest.mark.full, pytest.mark.takes(180)]),
    ],
)
def test_whatever_is_killed(broker, connection, topic, truth, launch, harms, most):
    """In any order, under any grouping that remembers, or plans: the seed is printed if it fails.

    A harm uses up to three batches of the stream: those that it waits for, and one in which it comes.
    """
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    grouping, short, *options = rng.choice(GROUPINGS)
    harms = rng.sample(harms, len(harms))
    print(f"seed {seed}, {grouping}: {', '.join(harm.__name__ for harm in harms)}")
    topology = launch(grouping, "--max-tuples", str(most), "--state-partitions", "3", *options)
    for harm in harms:
        topology.goes_on(rng.randint(1, 2), longer=rng.random())  # anywhere in a batch
        harm(topology, broker)
    topology.finish()
    check(connection, topic, short, truth)
    assert Checkpoint(str(topology.checkpoint)).partitions() == 3
