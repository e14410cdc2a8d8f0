"""Real kills: whatever dies and whenever, the final counts are those of what was published."""

import random
import re
import signal
from collections.abc import Callable

import pytest

from tests.apps.faults.harms import broker, connection, everything, harm_in_batches, python_workers, the_broker, the_jvm  # noqa: F401
from tests.harness.topology import Topology, check, launch, truth  # noqa: F401  fixtures
from tests.harness.totals import consume_totals
from tests.waiting import gone
from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.apps.cli.watchdog import HUNG
from unskew.deploy.servers.broker import Broker

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(1800)]


def ctrl_c(topology: Topology, broker: Broker) -> None:
    topology.process.send_signal(signal.SIGINT)
    stopped = r"stopped after \d+ batch(es)?; start it again, and it goes on from its checkpoint\."
    assert re.search(stopped, topology.ended_with(0))
    topology.start()


FEW: list[Callable[[Topology, Broker], None]] = [python_workers, the_broker, everything]
EACH: list[Callable[[Topology, Broker], None]] = [everything, python_workers, the_broker, the_jvm, ctrl_c]
HARMS = [*[everything] * 4, *[python_workers] * 7, *[the_broker] * 3, the_jvm, ctrl_c]
NIGHTLY = [pytest.mark.nightly(group="kills"), pytest.mark.takes(180)]

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
        pytest.param(GROUPINGS, HARMS, 400, id="again and again", marks=NIGHTLY),
        pytest.param(CHANGES, HARMS, 400, id="running totals", marks=NIGHTLY),
        pytest.param(PLANNED, HARMS, 400, id="plans in waves", marks=NIGHTLY),
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
    harm_in_batches(topology, broker, harms, rng)
    if "changes" in options:
        assert consume_totals(connection, f"{topic}-s2-w4-{short}-aggregator") == truth
    else:
        check(connection, topic, short, truth)
    assert Checkpoint(str(topology.checkpoint)).partitions() == 3


@pytest.mark.nightly(group="kills")
@pytest.mark.takes(150)
def test_a_run_that_hangs_ends_and_goes_on(connection, topic, truth, launch):
    """By `--batch-timeout`; started again, as by Docker, it has lost nothing."""
    topology = launch("PARTIAL_KEY", "--max-tuples", "1200", "--batch-timeout", "90")
    topology.await_batches(2)
    jvm = topology.jvm()
    jvm.suspend()
    assert topology.ended_with(HUNG).splitlines()[-1].startswith("unskew: no batch has ended for ")
    assert gone(jvm.pid)
    topology.start()
    topology.await_end()
    check(connection, topic, "pkg", truth)
