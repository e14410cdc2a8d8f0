"""What a campaign's contestants must give, and how they are started: without Spark and Kafka."""

import subprocess
import sys
import time

import orjson
import pytest

from benchmarks.faults import faults, producer
from benchmarks.faults.contestants import Session, Topology, judge_kept, kept, summaries
from benchmarks.faults.faults import Fault
from benchmarks.faults.proxy import OUTSIDE
from benchmarks.faults.stage import Stage
from oracle.truth import Record, Truth, Verdict
from unskew.deploy.servers.broker import _server_properties
from unskew.deploy.servers.loopback import LOOPBACK

WINDOW, NEXT = "2026-01-31T12:00:00.000Z", "2026-01-31T12:00:10.000Z"
DAY_MS = 86_400_000


def published(key, batch, count, least, most, window=WINDOW):
    """A record of a summary. Its batch has another time than its number suggests, as after a step of the clock."""
    named = {"generation": 0, "number": batch, "time": 1_000_000 - batch}
    fields = {"count": count, "sum": 0.0, "min": float(least), "max": float(most)}
    value = {"key": key, "batch": named, "tags": {"key": key, "window": window}, "fields": fields}
    return Record(0, batch, f"{window}/{key}", orjson.dumps(value), 0)


def truth():
    found = Truth()
    for window, key, offset in [(WINDOW, "a", 3), (WINDOW, "a", 9), (WINDOW, "b", 4), (NEXT, "a", 11)]:
        found.counts[window, key] += 1
        found.ids.add((window, key, offset))
    return found


RIGHT = [published("a", 2, 2, 3, 9), published("b", 2, 1, 4, 4), published("a", 3, 1, 11, 11, NEXT)]


def test_the_summary_of_the_latest_batch_is_the_one_that_must_be_right():
    expected = summaries(truth())
    assert expected == {(WINDOW, "a"): (2, 3, 9), (WINDOW, "b"): (1, 4, 4), (NEXT, "a"): (1, 11, 11)}
    assert kept([published("a", 1, 1, 3, 3), *RIGHT]) == expected
    judge_kept(verdict := Verdict(), expected, kept(RIGHT))
    assert verdict.exact


def test_a_summary_that_is_stale_missing_or_too_many_is_altered():
    expected = summaries(truth())
    for wrong in ([*RIGHT, published("a", 4, 1, 3, 3)], RIGHT[1:], [*RIGHT, published("c", 2, 1, 1, 1)]):
        judge_kept(verdict := Verdict(), expected, kept(wrong))
        assert (verdict.altered, len(verdict.differences)) == (1, 1)
    judge_kept(verdict := Verdict(), expected, kept(RIGHT[:2]), before=NEXT)
    assert verdict.exact, "the last window was open"


@pytest.fixture
def stage(tmp_path):
    """Makes a stage that isn't started, with proxies or without."""

    def made(contestant, *, proxied):
        return Stage(
            tmp_path, 1, contestant, 100.0, influxdb=False, disk=False, preloaded=False, proxied=proxied
        )  # fmt: skip

    return made


@pytest.mark.parametrize("contestant", [Topology("KEY", "batch"), Session("balance", "KEY")], ids=["topology", "own"])
def test_a_query_goes_through_the_proxies(stage, contestant, monkeypatch):
    monkeypatch.setattr("benchmarks.faults.contestants.GROUPINGS", {"KEY": ("key",)})
    one = stage(contestant, proxied=True)
    assert one.to_broker is not None
    assert one.to_driver is not None
    broker, calls, blocks = one.to_broker.ports[0], one.to_driver.ports[0], one.to_driver.ports[8]
    assert f"{OUTSIDE}:{broker}" in contestant.command(one)
    for name, value in (("host", OUTSIDE), ("bindAddress", LOOPBACK), ("port", calls), ("blockManager.port", blocks)):
        assert f"--conf=spark.driver.{name}={value}" in contestant.command(one)
    direct = int(one.broker.listens.rpartition(":")[2])
    properties = _server_properties(one.folder, direct, 9, one.broker._properties)
    listeners = dict(each.split("://") for each in properties["listeners"].split(","))
    assert listeners == {
        "PLAINTEXT": f"{LOOPBACK}:{direct}", "CONTROLLER": f"{LOOPBACK}:9", "PROXIED": f"{LOOPBACK}:{broker}",
    }  # fmt: skip
    assert properties["advertised.listeners"] == f"PLAINTEXT://{LOOPBACK}:{direct},PROXIED://{OUTSIDE}:{broker}"


def test_without_these_faults_there_are_no_proxies(stage):
    one = stage(Topology("BOUNDED_LOAD", "batch"), proxied=False)
    assert (one.to_broker, one.to_driver) == (None, None)
    assert one.conf["spark.driver.host"] == LOOPBACK
    assert "advertised.listeners" not in one.broker._properties


def test_a_session_behind_a_shuffle_is_told_so():
    one = Session("keyed_map", "BOUNDED_LOAD", shuffled=True)
    assert one.name.endswith("behind a shuffle")
    assert one != Session("keyed_map", "BOUNDED_LOAD")


class Told:
    """Stands for a stage, a driver and a producer, and notes what is done."""

    def __init__(self):
        self.done = []
        self.driver = self

    def planned(self):
        return 4

    def committed(self):
        return 4 + ("time passes" in self.done)

    def pass_time(self, _):
        self.done.append("time passes")

    def burst(self, kind, _):
        self.done.append(kind)
        return subprocess.Popen([sys.executable, "-c", ""])


def test_no_other_messages_come_until_those_from_the_future_are_taken(monkeypatch):
    one = Told()
    monkeypatch.setattr(faults, "_stop", lambda *_: one.done.append("stopped") or (lambda: one.done.append("goes on")))
    monkeypatch.setattr(faults, "_power", lambda *_: one.done.append("killed"))
    undo = faults._future(one, Fault("future", 0.0, 0.0, 0.5, beside=False))  # pyright: ignore[reportArgumentType]
    undo()
    assert one.done == ["stopped", "killed", "future", "time passes", "goes on"]


def test_a_producer_goes_on_where_there_is_no_driver_to_kill(monkeypatch):
    one = Told()

    def power(*_):
        raise TimeoutError

    monkeypatch.setattr(faults, "_stop", lambda *_: lambda: one.done.append("goes on"))
    monkeypatch.setattr(faults, "_power", power)
    with pytest.raises(TimeoutError):
        faults._future(one, Fault("future", 0.0, 0.0, 0.5, beside=False))  # pyright: ignore[reportArgumentType]
    assert one.done == ["goes on"]


class Sent:
    """Takes messages in a topic's place."""

    def __init__(self):
        self.times = []

    def send(self, value, ms):
        self.times.append(ms)

    def finish(self):
        self.times.sort()


def test_messages_ahead_are_from_the_future_and_others_are_not():
    producer.ahead(to := Sent(), 50, producer.random.Random(1))  # pyright: ignore[reportArgumentType]
    now = round(1000 * time.time())
    assert len(to.times) == 50
    assert now + 9 * DAY_MS < to.times[0] <= to.times[-1] <= now + 10 * DAY_MS
    assert now < producer.future_from() < to.times[0]
