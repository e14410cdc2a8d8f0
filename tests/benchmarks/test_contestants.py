"""What a campaign's contestants must give, and how they are started: without Spark and Kafka."""

import subprocess
import sys
import time
from types import SimpleNamespace

import orjson
import pyarrow as pa
import pytest
from confluent_kafka import ElectionType, KafkaException

from benchmarks.faults import faults, flaky, leaders, producer
from benchmarks.faults.contestants import Session, Topology, judge_kept, judge_once, kept, summaries
from benchmarks.faults.faults import Fault
from benchmarks.faults.proxy import OUTSIDE
from benchmarks.faults.stage import Stage
from oracle.truth import Published, Record, Truth, Verdict, failures, judge, truth_of
from unskew.apps.topology.worker import results
from unskew.deploy.servers.broker import _server_properties
from unskew.deploy.servers.loopback import LOOPBACK
from unskew.errors import EnvironmentFault
from unskew.works.named import named

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


def test_where_results_are_published_exactly_once_a_second_record_is_one_too_many():
    judge_once(once := Verdict(), [Published.of(RIGHT), Published.of(RIGHT[:1])])
    assert once.exact
    judge_once(twice := Verdict(), [Published.of(RIGHT), Published.of([*RIGHT, RIGHT[0]])])
    assert (twice.doubled, twice.exact) == (1, False)


def test_a_summary_that_is_stale_missing_or_too_many_is_altered():
    expected = summaries(truth())
    for wrong in ([*RIGHT, published("a", 4, 1, 3, 3)], RIGHT[1:], [*RIGHT, published("c", 2, 1, 1, 1)]):
        judge_kept(verdict := Verdict(), expected, kept(wrong))
        assert (verdict.altered, len(verdict.differences)) == (1, 1)
    judge_kept(verdict := Verdict(), expected, kept(RIGHT[:2]), before=NEXT)
    assert verdict.exact, "the last window was open"


MESSAGES = [Record(0, offset, "", b'{"country":"a"}', 0) for offset in range(3)] + [Record(0, 3, "", b"{", 0)]
RAISED = "work: flaky.py:33 in flaky: RuntimeError: a bad spell"


def judged(counted, reasons):
    """What comes of three valid messages and a malformed one, if a run counts so many and rejects for these reasons."""
    start = "1970-01-01T00:00:00.000Z"
    count = {"tags": {"window": start, "key": "a"}, "fields": {"count": counted}}
    rejected = [Record(0, 0, f"t-0-{at}", orjson.dumps({"reason": reason}), 0) for at, reason in reasons.items()]
    expected = truth_of("t", MESSAGES, 10_000, lambda record: record.time_ms, 1 << 62, failures(rejected))
    return judge(expected, Published.of([Record(0, 0, "a", orjson.dumps(count), 0)]), Published.of(rejected))


def test_a_message_on_which_the_work_fails_is_counted_or_rejected():
    assert judged(3, {3: "not JSON"}).exact
    verdict = judged(2, {1: RAISED, 3: "not JSON"})
    assert verdict.exact
    assert verdict.rejected == {RAISED: 1, "not JSON": 1}
    both, neither = judged(3, {1: RAISED, 3: "not JSON"}), judged(2, {3: "not JSON"})
    assert (both.doubled, both.lost, neither.doubled, neither.lost) == (1, 0, 0, 1)
    assert judged(3, {3: RAISED}).rejected_wrongly == 2, "it is malformed: no work has seen it"
    assert judged(3, {1: "not JSON", 3: "not JSON"}).rejected_wrongly == 1


def test_a_flaky_work_fails_on_other_tuples_each_time(monkeypatch):
    tuples = pa.record_batch([pa.array(["a"] * 20_000), pa.array(range(20_000))], ["key", "offset"])

    def failing(now):
        monkeypatch.setattr(flaky.time, "time", lambda: now)
        found = list(results(named("benchmarks.faults.flaky:flaky"), tuples))
        failed = {part["offset"][0].as_py() for part, result in found if isinstance(result, Exception)}
        counts = sum(result.counts["count"].to_pylist()[0] for _, result in found if not isinstance(result, Exception))
        assert counts == 20_000 - len(failed)
        return failed

    first, second = failing(0.0), failing(flaky.PERIOD + flaky.SPELL / 2)
    assert 50 < len(first) < 200
    assert first != second
    assert not failing(flaky.SPELL)


@pytest.fixture
def stage(tmp_path):
    """Makes a stage that isn't started, with proxies or without, and with a second broker or without."""

    def made(contestant, *, proxied, replicated=False):
        without = dict.fromkeys(("influxdb", "disk", "preloaded"), False)
        return Stage(tmp_path, 1, contestant, 100.0, proxied=proxied, replicated=replicated, **without)

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
        "PLAINTEXT": f"{LOOPBACK}:{direct}",
        "CONTROLLER": f"{LOOPBACK}:9",
        "PROXIED": f"{LOOPBACK}:{broker}",
    }
    assert properties["advertised.listeners"] == f"PLAINTEXT://{LOOPBACK}:{direct},PROXIED://{OUTSIDE}:{broker}"


def test_without_these_faults_there_are_no_proxies(stage):
    one = stage(Topology("BOUNDED_LOAD", "batch"), proxied=False)
    assert (one.to_broker, one.to_driver) == (None, None)
    assert one.conf["spark.driver.host"] == LOOPBACK
    assert "advertised.listeners" not in one.broker._properties
    assert one.second is None
    assert "default.replication.factor" not in one.broker._properties


def test_two_brokers_have_a_proxy_for_each(stage):
    contestant = Topology("BOUNDED_LOAD", "batch")
    one = stage(contestant, proxied=True, replicated=True)
    first, second = one.to_broker.ports
    assert f"{OUTSIDE}:{first},{OUTSIDE}:{second}" in contestant.command(one)
    assert (one.broker.node_id, one.second.node_id) == (1, 2)
    for broker, port in ((one.broker, first), (one.second, second)):
        direct = int(broker.listens.rpartition(":")[2])
        properties = _server_properties(broker.data, direct, 9, broker._properties, broker.node_id)
        listeners = dict(each.split("://") for each in properties["listeners"].split(","))
        assert listeners.pop("CONTROLLER", None) == (f"{LOOPBACK}:9" if broker is one.broker else None)
        assert listeners == {"PLAINTEXT": f"{LOOPBACK}:{direct}", "PROXIED": f"{LOOPBACK}:{port}"}
        assert properties["advertised.listeners"] == f"PLAINTEXT://{LOOPBACK}:{direct},PROXIED://{OUTSIDE}:{port}"
        assert properties["default.replication.factor"] == "2"
    assert one.broker.data != one.second.data


def test_a_flaky_work_is_run_with_its_option(stage):
    command = Topology("PARTIAL_KEY", "event", flaky=True).command(stage(Topology("KEY", "batch"), proxied=True))
    assert {"--work=benchmarks.faults.flaky:flaky", "--work-columns=offset", "--work-errors=reject"} <= {*command}


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

    def bring_back(self):
        return "time passes" in self.done

    def end_returned(self):
        self.done.append("ended")


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


def test_a_first_driver_that_comes_back_is_ended_after_the_hold_or_when_it_does_not_wait(monkeypatch):
    fault = Fault("supervised", 0.0, 0.0, 0.5, beside=False)
    one = Told()
    monkeypatch.setattr(faults, "_second", lambda *_: lambda: one.done.append("goes on"))
    undo = faults._supervised(one, fault)  # pyright: ignore[reportArgumentType]
    assert one.done == ["goes on", "time passes"]
    undo()
    assert one.done[2:] == ["ended"]
    monkeypatch.setattr(one, "bring_back", lambda: False)
    monkeypatch.setattr(faults, "_START_PATIENCE", -1.0)
    with pytest.raises(TimeoutError, match="says that it waits"):
        faults._supervised(one, fault)  # pyright: ignore[reportArgumentType]
    assert one.done[3:] == ["goes on", "ended"]


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


class Cluster:
    """Stands for a stage, its second broker, and its brokers' admin client, and notes what is done."""

    def __init__(self, in_sync):
        self.done, self._in_sync = [], list(in_sync)
        self.second = self.connection = self

    def admin(self):
        return self

    def kill(self):
        self.done.append("killed")

    def start(self):
        self.done.append("started")

    def pass_time(self, _):
        self.done.append("time passes")

    def list_topics(self, **_):
        isrs = self._in_sync.pop(0)
        if isrs is None:
            raise KafkaException
        partition = SimpleNamespace(replicas=[2, 1], isrs=isrs)
        return SimpleNamespace(topics={"t": SimpleNamespace(partitions={0: partition})})

    def elect_leaders(self, kind, partitions):
        self.done.append((kind, partitions))
        return SimpleNamespace(result=lambda _: {})


def test_leaders_move_back_when_the_second_broker_is_in_sync(monkeypatch):
    fault = Fault("leaders", 0.0, 0.0, 0.5, beside=False)
    one = Cluster([None, [1], [1, 2]])
    faults._leaders(one, fault)()  # pyright: ignore[reportArgumentType]
    done = [each for each in one.done if each != "time passes"]
    assert done == ["killed", "started", (ElectionType.PREFERRED, None)]
    assert one.done[-3:-1] == ["time passes"] * 2
    monkeypatch.setattr(leaders, "IN_SYNC_PATIENCE", -1.0)
    with pytest.raises(EnvironmentFault, match="isn't in sync"):
        faults._leaders(Cluster([[1]]), fault)()  # pyright: ignore[reportArgumentType]
