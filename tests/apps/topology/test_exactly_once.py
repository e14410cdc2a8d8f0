"""What a run publishes, as a plain ``read_committed`` consumer sees it without keeping one record of each key."""

import shutil
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from pyspark import cloudpickle

from tests.apps.conftest import count_by_key, countries, publish, read_results, records, skewed
from tests.apps.stateful import driver
from tests.apps.stateful.driver import TallyOfKinds
from tests.harness.topology import START
from tests.waiting import awaited
from unskew.apps.aggregator.exactly_once import TransactionalPartitions, list_roles
from unskew.apps.aggregator.publisher import ResultPublisher, list_result_topics
from unskew.apps.checkpoint.checkpoint import COMMITS, Checkpoint
from unskew.apps.driver import preconditions
from unskew.apps.driver.batch_committer import BatchReport
from unskew.apps.settings import Settings
from unskew.errors import EnvironmentFault
from unskew.kafka import transactions
from unskew.kafka.connection import Connection
from unskew.kafka.topics import count_partitions, ensure_topic
from unskew.kafka.transactions import BatchId, read_last_batch_ids

cloudpickle.register_pickle_by_value(driver)  # the tasks can't import the tests

KEYS = skewed(2_000)
BAD = len(KEYS) // 50
MESSAGES = [each for at in range(BAD) for each in [*countries(KEYS[50 * at : 50 * (at + 1)]), b"bad"]]
RESULTS = ("aggregator", "distribution", "rejected", "results")


def closes(batches: int) -> Callable[[BatchReport], bool]:
    """Whether a batch is the one of this number among those that close windows."""
    number = count(1)
    return lambda report: bool(report.windows) and next(number) == batches


def doubled(connection: Connection, run: Settings) -> dict[str, int]:
    """Role → how many records it has more than Kafka keys (and batches, of results that may change)."""
    found = {}
    for role, topic in list_result_topics(run).items():
        keys = Counter((key, str(value.get("batch"))) for key, value in records(connection, topic))
        found[role] = sum(keys.values()) - len(keys)
    return found


@pytest.mark.parametrize(
    "keyed",
    [pytest.param(False, id="counts"), pytest.param(True, id="states", marks=pytest.mark.nightly(group="groupings"))],
)
def test_a_batch_that_runs_again_publishes_nothing_twice(keyed, settings, die_uncommitted, drain, connection, topic):
    publish(connection, topic, 2, MESSAGES)
    more = {"work": TallyOfKinds("offset")} if keyed else {}
    run = settings("KEY", delivery="exactly-once", max_tuples=500, run_time=600.0, **more)
    for deaths in (1, 2):
        die_uncommitted(run, closes(deaths))
    drain(run)
    assert doubled(connection, run) == dict.fromkeys(list_result_topics(run), 0)
    assert count_by_key(run) == Counter(KEYS)
    assert len(read_results(run, "rejected")) == BAD


@pytest.mark.nightly(group="groupings")
def test_a_batch_that_runs_again_publishes_the_same_bytes(
    settings, die_uncommitted, drain, connection, topic, monkeypatch
):
    """By another driver, of a batch in which no source had a tuple."""
    publish(connection, topic, 2, countries(["a", "b", "c", "a"] * 100))
    sent, send = defaultdict(list), ResultPublisher.send

    def note(publisher, role, messages, number):
        written = [*messages]
        sent[number.batch].append([(message.key, message.value) for message in written])
        send(publisher, role, written, number)

    monkeypatch.setattr(ResultPublisher, "send", note)
    watching = {"warm_up": 0.0, "check_interval": 0.1, "promotion_period": 0.1, "periods_to_old": 1}
    run = settings("DYNAMIC_KEY", options=watching, max_tuples=100, trigger=0.0, run_time=600.0)
    die_uncommitted(run, lambda report: report.windows and report.batch.start == report.batch.end)
    drain(run)
    [[first, second]] = [attempts for attempts in sent.values() if len(attempts) > 1]
    assert second == first
    assert any("/OLD_SPACE/" in key for key, _ in first)


@pytest.mark.nightly(group="groupings")
def test_at_least_once_publishes_it_again_and_may_be_changed_from_run_to_run(
    settings, die_uncommitted, drain, connection, topic
):
    publish(connection, topic, 2, MESSAGES[:1_000])
    often = settings("KEY", max_tuples=500, run_time=600.0, delivery="at-least-once")
    die_uncommitted(often, closes(1))
    drain(often)
    before = doubled(connection, often)
    assert before["aggregator"] > 0
    assert before["distribution"] > 0
    assert COMMITS not in Checkpoint(often.location).read_record()
    publish(connection, topic, 2, MESSAGES[1_000:])
    once = settings("KEY", delivery="exactly-once", max_tuples=500, run_time=600.0)
    die_uncommitted(once, closes(1))
    drain(once)
    assert doubled(connection, once) == before
    publish(connection, topic, 2, countries(["more"] * 10))
    drain(often)
    assert count_by_key(once) == Counter(KEYS) + Counter(more=10)


@pytest.mark.nightly(group="groupings")
def test_only_batches_that_close_windows_have_numbers(settings, drain, connection, topic):
    publish(connection, topic, 2, countries(KEYS), ms=[START + i for i in range(len(KEYS))])
    run = settings("KEY", delivery="exactly-once", max_tuples=200, window=3600.0, time="event", run_time=600.0)
    _, reports = drain(run)
    closing = [report.batch.number for report in reports if report.windows]
    roles = list_roles(Checkpoint(run.location).read_record()[COMMITS]["parts"])
    made = TransactionalPartitions(connection, commits_topic(run), roles)
    numbers = read_last_batch_ids(connection, made.topic, range(made.partitions)).values()
    assert {number.batch for number in numbers} == set(closing)
    assert len(reports) > len(closing) == 1
    # One for each part that had a key, and one of the driver; marks have no value.
    written = [value for _, value in records(connection, made.topic) if value is not None]
    assert 2 <= len(written) == len(numbers) <= 1 + made.of("aggregator")


@pytest.mark.nightly(group="groupings")
def test_a_checkpoint_that_was_set_back_loses_no_results(settings, drain, connection, topic, tmp_path, caplog):
    publish(connection, topic, 2, countries(["a"] * 100))
    run = settings("KEY", delivery="exactly-once", run_time=600.0)
    drain(run)
    there, copy = Path(run.checkpoint), tmp_path / "copy"
    shutil.copytree(there, copy)
    publish(connection, topic, 2, countries(["b"] * 100))
    drain(run)
    shutil.rmtree(there)
    shutil.move(copy, there)
    publish(connection, topic, 2, countries(["c"] * 100))
    before = commits_topic(run)
    drain(run)
    assert "which was set back" in caplog.text
    assert commits_topic(run) != before
    assert count_by_key(run) == {
        "a": 100,
        "b": 200,
        "c": 100,
    }  # the new batches are of other times, and so of other windows


def commits_topic(run: Settings) -> str:
    """The topic with the numbers of a run's batches."""
    return f"{run.topic}-unskew-commits-{Checkpoint(run.location).read_record()[COMMITS]['id']}"


@pytest.mark.parametrize("keyed", [False, True])
def test_each_part_has_a_partition_of_its_own(keyed):
    commits = TransactionalPartitions(Connection("nowhere:1"), "t-unskew-commits-1", list_roles(6, keyed=keyed))
    roles = [role for role in RESULTS if keyed or role != "results"]
    parts = [commits.writer(role, number) for role in roles for number in range(commits.of(role))]
    assert sorted(part._partition for part in parts) == list(range(commits.partitions))
    assert len({part._name for part in parts}) == commits.partitions
    with pytest.raises(ValueError, match="part 6 of aggregator; there are 6"):
        commits.writer("aggregator", 6)


def test_a_second_driver_fences_the_first_and_another_checkpoint_does_not(settings, connection, topic):
    run, other = (
        settings("KEY", delivery="exactly-once"),
        settings("KEY", delivery="exactly-once", checkpoint="elsewhere"),
    )
    first, second = (TransactionalPartitions(connection, f"{topic}-unskew-commits-{n}", list_roles(1)) for n in (1, 2))
    publisher = ResultPublisher(run, first)
    publisher.send("distribution", [], BatchId(0, 0))
    ResultPublisher(other, second).send("distribution", [], BatchId(0, 0))
    publisher.send("distribution", [], BatchId(1, 1))
    late = first.writer("distribution")
    assert late.begin(list_result_topics(run)["distribution"], BatchId(2, 2))
    transactions.TransactionalWriter._kept.clear()  # as in another process
    ResultPublisher(run, first)
    with pytest.raises(EnvironmentFault, match="was ended from outside"):
        late.finish()


def test_parts_are_noted_in_the_checkpoint_once(settings, connection, topic):
    run = settings("KEY", delivery="exactly-once")
    checkpoint = Checkpoint(run.location)
    first = preconditions.load_or_create_partitions(run, checkpoint, 3)
    assert first is not None
    assert (first.of("aggregator"), first.topic) == (3, commits_topic(run))
    assert preconditions.load_or_create_partitions(run, checkpoint, 5) == first
    assert preconditions.load_or_create_partitions(settings("KEY", delivery="at-least-once"), checkpoint, 5) is None
    ensure_topic(connection, first.topic, first.partitions, transactions.COMMITS)
    assert count_partitions(connection, first.topic) == 1 + 3 + 3
    assert preconditions.load_or_create_partitions(run, checkpoint, 5) == first  # its topic is empty
    part = first.writer("aggregator", 2)
    ensure_topic(connection, topic, 1)
    part.begin(topic, BatchId(0, 0))
    part.finish()
    again = preconditions.load_or_create_partitions(run, checkpoint, 5)  # nothing is planned in the checkpoint
    assert again is not None
    assert again.topic != first.topic
    assert again.of("aggregator") == 5
    preconditions.delete_commits_topic(run)  # it has not been made
    ensure_topic(connection, again.topic, again.partitions, transactions.COMMITS)
    preconditions.delete_commits_topic(run)
    awaited(lambda: count_partitions(connection, again.topic) is None, "the topic is gone")
