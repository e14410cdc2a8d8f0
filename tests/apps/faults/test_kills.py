"""Real kills: whatever dies and whenever, the final counts are those of what was published."""

import random
import re
import signal
from collections.abc import Callable

import pytest

from tests.apps.faults.harms import broker, connection, everything, python_workers, the_broker, the_jvm  # noqa: F401
from tests.harness.topology import Topology, check, launch, truth  # noqa: F401  fixtures
from tests.harness.totals import consume_totals
from tests.waiting import PATIENCE
from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.deploy.servers.broker import Broker

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(1800)]


def ctrl_c(topology: Topology, broker: Broker) -> None:
    topology.process.send_signal(signal.SIGINT)
    assert topology.process.wait(PATIENCE) == 0
    output = topology.output()
    assert "Traceback" not in output
    assert re.search(r"stopped after \d+ batch(es)?; start it again, and it goes on from its checkpoint\.", output)
    topology.start()


FEW: list[Callable[[Topology, Broker], None]] = [python_workers, the_broker, everything]
EACH: list[Callable[[Topology, Broker], None]] = [everything, python_workers, the_broker, the_jvm, ctrl_c]
HARMS = [
    *[everything] * 4,
    *[python_workers] * 7,
    *[the_broker] * 3,
    the_jvm,
    ctrl_c,
]


# The last two plan in nearly every batch, by what the workers measured.
GROUPINGS = [
    ("PARTIAL_KEY", "pkg"),
    ("DYNAMIC_KEY", "dkg"),
    ("BOUNDED_LOAD", "bl"),
    ("MIXED", "mixed", "-g", "theta_max=0", "-g", "window=1"),
    ("POSG", "posg", "-g", "window=16", "-g", "tolerance=10"),
]
PLANNED = [("PLANNED", "pl")]  # one plan for all sources, which the driver makes in waves
CHANGES = [(*GROUPINGS[2], "--emit", "changes"), ("KEY", "kg", "--emit", "changes", "--delivery", "exactly-once")]


@pytest.mark.parametrize(
    ("groupings", "harms", "most"),
    [
        pytest.param(GROUPINGS, FEW, 2_000, id="a few", marks=pytest.mark.takes(40)),
        pytest.param(GROUPINGS, EACH, 1_200, id="each once", marks=[pytest.mark.ci, pytest.mark.takes(60)]),
        pytest.param(
            GROUPINGS,
            HARMS,
            400,
            id="again and again",
            marks=[pytest.mark.nightly(group="kills"), pytest.mark.takes(180)],
        ),
        pytest.param(
            CHANGES, HARMS, 400, id="running totals", marks=[pytest.mark.nightly(group="kills"), pytest.mark.takes(180)]
        ),
        pytest.param(
            PLANNED, HARMS, 400, id="plans in waves", marks=[pytest.mark.nightly(group="kills"), pytest.mark.takes(180)]
        ),
    ],
)
def test_whatever_is_killed(broker, connection, topic, truth, launch, groupings, harms, most, seed):
    """In any order, under any grouping that remembers, or plans.

    A harm uses up to three batches of the stream: those that it waits for, and one in which it comes.
    """
    rng = random.Random(seed)
    grouping, short, *options = rng.choice(groupings)
    harms = rng.sample(harms, len(harms))
    print(f"{grouping}: {', '.join(harm.__name__ for harm in harms)}")
    topology = launch(grouping, "--max-tuples", str(most), "--conf", "spark.sql.shuffle.partitions=3", *options)
    for harm in harms:
        topology.await_batches(rng.randint(1, 2), longer=rng.random())  # anywhere in a batch
        harm(topology, broker)
    topology.await_end()
    if "changes" in options:
        assert consume_totals(connection, f"{topic}-s2-w4-{short}-aggregator") == truth
    else:
        check(connection, topic, short, truth)
    assert Checkpoint(str(topology.checkpoint)).partitions() == 3
