"""Exactly once: whatever happens to whoever writes, a plain ``read_committed`` consumer sees each record once."""

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from evidence.faults.transactions.protocol import PROTOCOLS, STEPS, commits_of
from tests.kafka.attempt import RECORDS, write
from tests.waiting import PATIENCE, awaited
from unskew.errors import EnvironmentFault
from unskew.kafka import transactions
from unskew.kafka.connection import Connection
from unskew.kafka.reader import TopicReader
from unskew.kafka.topics import end_offsets, ensure_topic
from unskew.kafka.transactions import COMMITS, BatchId, TransactionalWriter, deliver_records, read_last_batch_ids

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


class Trial:
    """Batches of one part, each written by several processes that are killed, or stopped and woken."""

    def __init__(self, connection: Connection, topic: str, protocol: str) -> None:
        self._connection, self._topic, self._protocol = connection, topic, protocol
        ensure_topic(connection, topic, 2)
        ensure_topic(connection, commits_of(topic), 1, COMMITS)
        self.batches = 0

    def new(self) -> TransactionalWriter:
        """The part as another process has it."""
        return PROTOCOLS[self._protocol](self._connection, f"{self._topic}-0", commits_of(self._topic), 0)

    def attempt(self, step: str, sign: str, *, kept: bool) -> subprocess.Popen[str]:
        """A process that gets the signal at a step of the next batch; ``kept``: it has written the batch before."""
        first = self.batches
        last = self.batches = first + 1 if kept else first
        of = self._connection.bootstrap_servers, self._topic, self._protocol, str(first), str(last), step, sign
        return subprocess.Popen([sys.executable, "-m", "tests.kafka.attempt", *of], stdout=subprocess.PIPE, text=True)

    def again(self) -> None:
        """Write the batch in this process, and again though it is written."""
        write(self.new(), self._topic, self.batches)
        assert not write(self.new(), self._topic, self.batches), "the number is lost"
        self.batches += 1

    def kill(self, step: str, *, kept: bool) -> None:
        """A process is killed at a step; another one writes the batch."""
        killed = self.attempt(step, "SIGKILL", kept=kept)
        out = killed.communicate(timeout=PATIENCE)[0]
        assert killed.returncode == -signal.SIGKILL or out, step
        self.again()

    def stop(self, step: str, *, kept: bool) -> str:
        """A process stops at a step; another one writes the batch; the first one is woken. What that says."""
        stopped = self.attempt(step, "SIGSTOP", kept=kept)

        def still() -> bool:
            return stopped.poll() is not None or state(stopped.pid) == "T"

        awaited(still, "it stops itself", 0.02)
        self.again()
        if stopped.poll() is None:
            stopped.send_signal(signal.SIGCONT)
        return stopped.communicate(timeout=PATIENCE)[0]

    def check(self) -> None:
        """Each record was written once, and no transaction is open."""
        with TopicReader(self._connection, self._topic) as reader:
            found = Counter((message.value() or b"").decode() for message in reader.to_end())
        assert found == Counter(f"{batch}-{i}" for batch in range(self.batches) for i in range(RECORDS))
        for topic in (self._topic, commits_of(self._topic)):
            ends = [end_offsets(self._connection, topic, committed=committed) for committed in (True, False)]
            assert ends[0] == ends[1], "a transaction is open"


def state(pid: int) -> str:
    """The state of a process, as Linux has it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def steps(*, kept: bool) -> Iterator[str]:
    """The steps that a process takes; ``kept``: if it has a producer from the batch before."""
    others = ("open", "init", "mark", "read") if kept else ("acknowledge",)
    return (step for step in STEPS if step not in (*others, "gap"))


@pytest.mark.parametrize("kept", [False, True], ids=["new", "kept"])
def test_each_record_is_there_once_wherever_a_process_dies(connection, topic, kept):
    trial = Trial(connection, topic, "TransactionalWriter")
    for step in steps(kept=kept):
        trial.kill(step, kept=kept)
    trial.check()


@pytest.mark.ci
@pytest.mark.parametrize("kept", [False, True], ids=["new", "kept"])
def test_each_record_is_there_once_wherever_a_process_is_paused_and_woken(connection, topic, kept):
    trial = Trial(connection, topic, "TransactionalWriter")
    said = {step: trial.stop(step, kept=kept).split(":")[0].strip() for step in steps(kept=kept)}
    trial.check()
    # Whoever learns of the other process before it takes records finds the batch. Later the task has to run again.
    assert said.pop("committed") == "written"
    found = {"begin", "number", "acknowledge"} if kept else {"open", "init", "mark", "read"}
    assert said == {step: "found" if step in found else "interrupted" for step in said}


#: A mutant of the protocol → a fault that shows what is wrong with it.
MUTANTS = {
    "NumberBefore": ("kill", "gap"),
    "NumberOutside": ("kill", "gap"),
    "NumberBeforeOutside": ("kill", "gap"),
    "ReadBefore": ("stop", "gap"),
    "NoFence": ("stop", "commit"),
}


@pytest.mark.nightly(group="clusters")
@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_check_finds_a_protocol_that_is_wrong(connection, topic, mutant):
    how, step = MUTANTS[mutant]
    trial = Trial(connection, topic, mutant)
    getattr(trial, how)(step, kept=False)
    with pytest.raises(AssertionError):
        trial.check()


def test_a_batch_that_another_plan_has_written_is_refused(connection, topic):
    trial = Trial(connection, topic, "TransactionalWriter")
    assert write(trial.new(), topic, 3, planned_ms=1000)
    assert not write(trial.new(), topic, 3, planned_ms=1000)
    assert not write(trial.new(), topic, 2, planned_ms=900)  # a task that was late
    for batch in (2, 3):
        with pytest.raises(EnvironmentFault, match=f"of another plan than this batch {batch}: the checkpoint was set"):
            write(trial.new(), topic, batch, planned_ms=1001)
    assert write(trial.new(), topic, 4, planned_ms=1001)


@pytest.mark.ci
def test_the_last_number_is_found_behind_many_aborted_transactions(connection, topic):
    trial = Trial(connection, topic, "TransactionalWriter")
    assert read_last_batch_ids(connection, commits_of(topic), [0]) == {}
    write(trial.new(), topic, 7)
    for _ in range(40):
        part = trial.new()
        part.begin(topic, BatchId(8, 8))
        part.abort()
    assert read_last_batch_ids(connection, commits_of(topic), [0]) == {0: BatchId(7, 7)}


def test_a_number_that_a_broker_has_not_settled_is_not_overlooked(connection, topic):
    """As after the end of Kafka's only broker in a commit: it may lose the commit's mark in the partition."""
    trial = Trial(connection, topic, "TransactionalWriter")
    trial.again()
    other = Producer(connection.client(**{"transactional.id": f"{topic}-other", "log_level": 0}))
    other.init_transactions()
    other.begin_transaction()
    other.produce(commits_of(topic), BatchId(1, 1).to_bytes(), b"0", 0)
    other.flush()
    with pytest.raises(EnvironmentFault, match=r"a transaction hangs in partition 0 of .*-commits, at offset 4 of 6"):
        trial.new().begin(topic, BatchId(1, 1))
    other.commit_transaction()
    assert not trial.new().begin(topic, BatchId(1, 1))


def test_a_transaction_that_takes_too_long_writes_nothing_and_can_be_tried_again(connection, topic, monkeypatch):
    trial = Trial(connection, topic, "TransactionalWriter")
    monkeypatch.setattr(transactions, "_LONGEST", 1000)
    monkeypatch.setattr(TransactionalWriter, "_granted", {})
    attempts = []

    def records():
        attempts.append(0)
        yield [{"key": b"0-0", "value": b"0-0"}]
        if len(attempts) == 1:
            awaited(lambda: aborted(connection, topic), "the coordinator aborts it")
        yield [{"key": b"%d" % i, "value": b"0-%d" % i} for i in range(1, RECORDS)]

    assert deliver_records(trial.new(), topic, BatchId(0, 0), records)
    assert len(attempts) == 2
    trial.batches = 1
    trial.check()


def aborted(connection, topic):
    """Whether the topic's records are all of transactions that are over."""
    ends = [sum(end_offsets(connection, topic, committed=committed).values()) for committed in (True, False)]
    return ends[0] == ends[1] > 0


def test_records_may_lack_a_key_or_a_value_and_have_a_partition_and_headers(connection, topic):
    part = Trial(connection, topic, "TransactionalWriter").new()
    plain = [{"key": None, "value": b"v"}, {"key": b"k", "value": None}]
    headers = [("kind", b"h"), ("kind", b""), ("none", None)]
    headed = [{"key": b"k", "value": b"h", "headers": headers}, {"key": None, "value": None, "headers": None}]
    part.begin(topic, BatchId(0, 0))
    part.put(plain)
    part.put(headed)
    part.put([{"key": b"k", "value": b"p", "partition": 1}, {"key": b"k", "value": b"q", "partition": 0}])
    part.finish()
    with TopicReader(connection, topic) as reader:
        found = list(reader.to_end())
    wanted = [(None, b"v", None), (b"k", None, None), (b"k", b"p", None), (b"k", b"h", headers), (None, None, None)]
    wanted.append((b"k", b"q", None))
    assert sorted(map(repr, wanted)) == sorted(repr((m.key(), m.value(), m.headers())) for m in found)
    places = {message.value(): message.partition() for message in found}
    assert (places[b"p"], places[b"q"]) == (1, 0)


@pytest.mark.parametrize("more", [{}, {"headers": None}], ids=["plain", "headers"])
def test_a_partition_that_there_is_not_is_an_error_in_one_line(connection, topic, more):
    part = Trial(connection, topic, "TransactionalWriter").new()
    records = [{"key": b"k", "value": b"v", "partition": 7, **more}] * 2
    with pytest.raises(EnvironmentFault, match=r"[12] records were not written to .* \(Local: Unknown partition\)"):
        deliver_records(part, topic, BatchId(0, 0), lambda: [[dict(each) for each in records]])


def test_records_that_kafka_refuses_are_an_error_in_one_line(connection, topic):
    trial = Trial(connection, topic, "TransactionalWriter")
    ensure_topic(connection, f"{topic}-small", 1, {"max.message.bytes": "1000"})
    records = [{"key": b"k", "value": b"v" * 2000}]
    with pytest.raises(
        EnvironmentFault, match=r"1 records were not written to .*-small \(Broker: Message size too larg"
    ):
        deliver_records(trial.new(), f"{topic}-small", BatchId(0, 0), lambda: [records])
    trial.again()
    trial.check()
