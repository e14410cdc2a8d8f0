"""Two drivers on one checkpoint: the older one ends with a line, and counts, results and plans are exact."""

import os
import re
import signal
import socket
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.apps.conftest import by_key, count_by_key, countries, final_counts, publish, skewed
from tests.apps.stateful.sessions import ALWAYS, SESSIONS, require_exact
from tests.commands import UNSKEW
from tests.harness.topology import Topology, check, launch, truth  # noqa: F401  fixtures
from tests.tiers import nightly, nightly_but
from tests.waiting import PATIENCE, awaited
from unskew.apps.aggregator.publisher import ResultPublisher
from unskew.apps.checkpoint import lease as hold_
from unskew.apps.checkpoint.checkpoint import Batch, Checkpoint
from unskew.apps.checkpoint.lease import Lease, get_driver_name
from unskew.apps.checkpoint.location import Location, Where
from unskew.apps.checkpoint.plan_states import PlanStateLog
from unskew.apps.checkpoint.versions import TotalsLog
from unskew.apps.driver.streaming_job import StreamingJob
from unskew.apps.driver.topology_handle import TopologyHandle
from unskew.errors import EnvironmentFault, LeaseLost

pytestmark = pytest.mark.ci

LINE = r"another driver \(process \d+ on \S+, since [-0-9]+ [:0-9]+ UTC\) goes on with the checkpoint .*: this one ends"


def test_who_begins_last_has_it(tmp_path):
    first, second = Lease(str(tmp_path)), Lease(str(tmp_path))
    with pytest.raises(EnvironmentFault, match=r"holder.json names the checkpoint's driver, but can't be read"):
        first.require()
    first.acquire()
    first.require()
    second.acquire()
    second.require()
    with pytest.raises(LeaseLost, match=LINE) as ended:
        first.require()
    assert ended.value.exit_code == 3
    first.acquire()
    with pytest.raises(LeaseLost):
        second.require()


def get_lease(monkeypatch: pytest.MonkeyPatch, checkpoint: Where, name: str) -> Lease:
    """The lease as the driver of this name has it."""
    monkeypatch.setenv("UNSKEW_DRIVER", name)
    return Lease(checkpoint)


def test_who_has_lost_it_knows_that_when_it_is_started_again(tmp_path, monkeypatch):
    hold = partial(get_lease, monkeypatch, str(tmp_path))
    first = hold("a")
    assert first.successor() is None
    first.acquire()
    assert hold("a").successor() is None, "it was killed and started again"
    second = hold("b")
    assert second.successor() is None, "a new one takes it"
    second.acquire()
    assert hold("a").successor()["driver"] == second._driver
    assert hold("b").successor() is None
    assert hold("c").successor() is None
    first.release()
    assert hold("a").successor() is not None, "it hadn't the checkpoint any more"
    second.release()
    third = hold("a")
    assert third.successor() is None, "the other one has come to its end"
    third.acquire()
    assert hold("b").successor()["driver"] == third._driver
    monkeypatch.delenv("UNSKEW_DRIVER")
    assert get_driver_name().split()[0] == socket.gethostname()


def test_a_driver_that_ends_while_another_takes_it_takes_nothing_back(tmp_path):
    first, second = Lease(str(tmp_path)), Lease(str(tmp_path))
    first.acquire()
    second.acquire()
    first.release()
    second.require()


@pytest.mark.parametrize(
    ("groups", "service"),
    [
        ("0::/system.slice/unskew@orders.service\n", " unskew@orders.service"),
        ("1:name=systemd:/system.slice/unskew.service\n0::/system.slice/unskew.service\n", " unskew.service"),
        ("12:memory:/kubepods/pod1/5f0c\n0::/kubepods/pod1/5f0c\n", ""),
        ("0::/\n", ""),
    ],
)
def test_the_name_of_a_driver(tmp_path, monkeypatch, groups, service):
    (tmp_path / "cgroup").write_text(groups)
    monkeypatch.setattr(hold_, "_CONTROL_GROUPS", tmp_path / "cgroup")
    assert get_driver_name() == f"{socket.gethostname()}{service}"


#: The looks of a batch that closes windows, in their order.
LOOKS = ["begins", "distribution", "totals", "plans", "commit"]


@pytest.mark.parametrize("look", nightly_but(["totals"], LOOKS, "kills"))
def test_a_driver_that_was_replaced_writes_nothing_more(look, settings, spark, drain, connection, topic, monkeypatch):
    keys = skewed(2_000)
    publish(connection, topic, 2, countries(keys), ms=[1_700_000_000_000 + 7 * i for i in range(len(keys))])
    run = settings("MIXED", time="event", window=1.0, lateness=0.1, max_tuples=400, options={"window": 1})
    began, looks, after = [], [], []
    batch_of, require = Checkpoint.batch, Lease.require

    def begins(checkpoint: Checkpoint, number: int) -> Batch:
        began.append(number)
        return batch_of(checkpoint, number)

    def comes_before(hold: Lease) -> None:
        looks.extend(began[-1:])
        if looks.count(3) == LOOKS.index(look) + 1 and not after:
            Lease(run.location).acquire()
            after.append("another driver")
        require(hold)

    def noted(method: Callable[..., Any]) -> Callable[..., Any]:
        def write(*of: Any) -> Any:
            after.extend([method.__qualname__] if after else [])
            return method(*of)

        return write

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoint, "batch", begins)
        patched.setattr(Lease, "require", comes_before)
        for kind, name in (
            (ResultPublisher, "send"),
            (ResultPublisher, "write"),
            (TotalsLog, "write"),
            (PlanStateLog, "write"),
        ):
            patched.setattr(kind, name, noted(getattr(kind, name)))
        with pytest.raises(LeaseLost, match=LINE):
            StreamingJob(run, []).run(spark)
    assert after == ["another driver"]
    assert began[-1] == 3
    drain(run)
    assert count_by_key(run) == Counter(keys)


def test_a_driver_that_has_lost_its_checkpoint_waits_for_the_end_of_the_other_one(
    settings, spark, connection, topic, monkeypatch, caplog
):
    """Started again, as by a service manager, it takes nothing back from one that is at work."""
    publish(connection, topic, 2, countries(["a"] * 100))
    run = settings("KEY")

    hold = partial(get_lease, monkeypatch, run.location)
    hold("first").acquire()
    other = hold("second")
    other.acquire()
    hold("first")
    with TopologyHandle(run, spark=spark) as again:
        awaited(lambda: "has taken the checkpoint from this one" in caplog.text or again.has_begun, "it waits")
        assert not again.has_begun
        other.require()
        other.release()
        assert again.wait(PATIENCE)
    assert again.outcome.drained
    assert by_key(final_counts(connection, again.topics["aggregator"])) == {"a": 100}


@pytest.fixture
def start(launch: Callable[..., Topology], tmp_path: Path) -> Callable[..., Topology]:
    """Start a topology whose states move in every batch; one that stops itself at a place is waited for."""
    folders = (tmp_path / str(number) for number in count())

    def one(*place: str) -> Topology:
        topology = launch(
            *("MIXED", "--conf", "spark.sql.shuffle.partitions=3", *SESSIONS, *ALWAYS),
            folder=next(folders),
            location=Location(str(tmp_path / "checkpoint")),
            command=[sys.executable, "-m", "tests.apps.faults.paused", *place] if place else UNSKEW,
        )
        if place:
            stands_still(topology)
        return topology

    return one


def stands_still(topology: Topology) -> None:
    """Wait until it has stopped itself."""

    def stopped() -> bool:
        assert topology.process.poll() is None, topology.output()
        return Path(f"/proc/{topology.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    awaited(stopped, "it stops itself")


def wake(topology: Topology) -> None:
    os.killpg(topology.process.pid, signal.SIGCONT)


def ends_with_a_line(topology: Topology) -> None:
    output = topology.ended_with(3)
    assert re.fullmatch(f"unskew: {LINE}", output.splitlines()[-1]), output


def plans(checkpoint: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (checkpoint / "unskew" / "plans").glob("[0-9]*")}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
@pytest.mark.takes(60)
@pytest.mark.parametrize("place", ["plans", *nightly("kills", "results", "idle", "commit")])
def test_one_that_wakes_up_when_all_is_done(place, connection, topic, truth, start, tmp_path):
    """It had looked, and was to write."""
    first = start(place, "3")
    second = start()
    assert second.process.wait(PATIENCE) == 0, second.output()
    require_exact(connection, topic, truth)
    written = plans(tmp_path / "checkpoint")
    wake(first)
    ends_with_a_line(first)
    require_exact(connection, topic, truth)
    assert {name: data for name, data in plans(tmp_path / "checkpoint").items() if name in written} == written


@pytest.mark.nightly(group="kills")
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
@pytest.mark.takes(60)
def test_two_that_are_started_again_whenever_they_end(connection, topic, truth, launch, tmp_path):
    """As by service managers: the one that has lost the checkpoint doesn't take it back from one that is at work."""
    started = []
    for name in ("a", "b"):
        own = {"folder": tmp_path / name, "environment": {"UNSKEW_DRIVER": name}}
        location = Location(str(tmp_path / "checkpoint"))
        started.append(launch("SHUFFLE", "--trigger", "1.5", "--max-tuples", "1000", location=location, **own))
        started[-1].await_batches(3)
    first, second = started
    ends_with_a_line(first)
    first.start()
    awaited(lambda: "another driver (process " in first.output(), "the first one says what it waits for")
    assert second.process.wait(PATIENCE) == 0, second.output()
    assert first.process.wait(PATIENCE) == 0, first.output()
    assert "has taken the checkpoint from this one" in first.output()
    check(connection, topic, "sg", truth)


@pytest.mark.nightly(group="kills")
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
@pytest.mark.takes(60)
@pytest.mark.parametrize(
    ("first_at", "second_at"),
    [("looked", "totals"), ("totals", "looked"), ("plans", "commit"), ("commit", "plans"), ("commit", "commit")],
)
def test_both_are_at_the_same_batch(first_at, second_at, connection, topic, truth, start):
    """The older one wakes up first, and may even commit the batch, which the newer one then finds committed.

    (Where the older one has written the plan, the newer one doesn't come by the place where it would write it.)
    """
    first = start(first_at, "3")
    second = start(second_at, "3")
    wake(first)
    ends_with_a_line(first)
    wake(second)
    assert second.process.wait(PATIENCE) == 0, second.output()
    require_exact(connection, topic, truth)
    found_committed = "the driver before this one was still at work" in second.output()
    assert found_committed == (first_at == "commit" and second_at != "plans")
