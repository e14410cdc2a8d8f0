"""An interrupted upload goes on where it stopped: nothing is lost, nothing is there twice."""

import os
import re
import signal
import subprocess
import time

import numpy as np
import orjson
import pytest
from confluent_kafka import Producer

from tests.commands import UNSKEW
from tests.producers.topic_contents import contents, expected, size
from unskew.deploy.servers.broker import Broker
from unskew.errors import UsageError
from unskew.kafka.connection import Connection
from unskew.kafka.topics import ensure_topic
from unskew.producers.datasets.interface import Dataset
from unskew.producers.datasets.registry import FORMATS, create_dataset
from unskew.producers.pace import Rate
from unskew.producers.partitioning import RoundRobinPlacement
from unskew.producers.publish import DeliveryFault, publish_dataset
from unskew.producers.readers.files import FileDataset
from unskew.producers.readers.inputs import find_inputs
from unskew.producers.readers.rejected_records import RejectLog
from unskew.producers.resumption import UploadJournal

pytestmark = [pytest.mark.kafka, pytest.mark.ci]
RECORDS = 300_000


@pytest.fixture
def clicks(tmp_path):
    """A file of clicks, with a bad line here and there."""
    path = tmp_path / "clicks.tsv"
    rows = [f"other-search\tPage_{number % 977}\texternal\t{number}\n" for number in range(RECORDS)]
    rows[1000::10_000] = ["broken\n"] * len(rows[1000::10_000])
    path.write_text("".join(rows))
    return path


def reader(path, rejects=None):
    return FileDataset(
        "WIKIPEDIA_CLICKSTREAM", find_inputs([str(path)]), FORMATS["WIKIPEDIA_CLICKSTREAM"], rejects or RejectLog()
    )


def upload(connection, topic, dataset, folder, **options):
    return publish_dataset(connection, topic, dataset, journal=UploadJournal(topic, dataset, folder), **options)


def stop_after(records):
    """A ``progress`` and a ``stopped`` that end an upload after so many records."""
    sent = [0]

    def progress(now, size):
        sent[0] = now

    return {"progress": progress, "stopped": lambda: sent[0] >= records}


def test_a_stopped_upload_goes_on(connection, topic, clicks, tmp_path):
    ensure_topic(connection, topic, 3)
    total, parts = 0, 0
    while True:
        summary = upload(connection, topic, reader(clicks), tmp_path, resume=parts > 0, **stop_after(90_000))
        total, parts = total + summary.records, parts + 1
        assert summary.records == summary.keys.total  # what was there already isn't counted again
        if not summary.interrupted:
            break
    assert parts >= 3
    assert total == RECORDS - RECORDS // 10_000
    assert contents(connection, topic) == expected(reader(clicks), 3)
    again = UploadJournal(topic, reader(clicks), tmp_path)
    assert again.load()
    assert again.is_finished


def test_a_resumed_generator_need_not_begin_anew(connection, topic, tmp_path):
    dataset = create_dataset("COUNTRY_SKEW_R80", records=RECORDS, seed=1)
    ensure_topic(connection, topic, 4)
    for resume, limit in ((False, 70_000), (True, 140_000), (True, RECORDS)):
        upload(connection, topic, dataset, tmp_path, resume=resume, pace=Rate(1e6), **stop_after(limit))
    assert contents(connection, topic) == expected(dataset, 4)


def test_what_was_in_the_topic_before_stays(connection, topic, tmp_path):
    ensure_topic(connection, topic, 2)
    publish_dataset(connection, topic, create_dataset("ZIPF", records=1001))
    dataset = create_dataset("LN2", records=100_000)
    for resume in (False, True):
        upload(connection, topic, dataset, tmp_path, resume=resume, pace=Rate(1e6), **stop_after(50_000))
    before, after = expected(create_dataset("ZIPF", records=1001), 2), expected(dataset, 2)
    assert contents(connection, topic) == {partition: before[partition] + after[partition] for partition in (0, 1)}


def test_somebody_else_s_records_are_noticed(connection, topic, clicks, tmp_path):
    ensure_topic(connection, topic, 2)
    upload(connection, topic, reader(clicks), tmp_path, **stop_after(50_000))
    other = Producer(connection.client())
    other.produce(topic, b"{}", partition=1)
    other.flush()
    with pytest.raises(UsageError, match="has other records in partition 1 than this upload's"):
        upload(connection, topic, reader(clicks), tmp_path, resume=True)


def test_another_grouping_is_noticed(connection, topic, tmp_path):
    dataset = create_dataset("LN2", records=1000)
    ensure_topic(connection, topic, 2)
    UploadJournal(topic, dataset, tmp_path).begin([0, 0], "--grouping KEY --seed 0")
    with pytest.raises(UsageError, match="chose its partitions by --grouping KEY --seed 0, not by an even spread"):
        upload(connection, topic, dataset, tmp_path, resume=True)


def test_other_files_are_another_upload(clicks, tmp_path):
    journal = UploadJournal("t", reader(clicks), tmp_path)
    journal.begin([0], "any")
    assert UploadJournal("t", reader(clicks), tmp_path).load()
    assert not UploadJournal("u", reader(clicks), tmp_path).load()
    clicks.write_text(clicks.read_text() + "a\tb\tlink\t10\n")
    assert not UploadJournal("t", reader(clicks), tmp_path).load()


def test_what_can_t_be_read_again_can_t_be_resumed(tmp_path):
    with pytest.raises(UsageError, match="standard input"):
        UploadJournal("t", reader("-"), tmp_path)


def test_the_last_positions_are_kept(tmp_path, monkeypatch):
    class Walk(Dataset):
        name, summary, at = "walk", "", 0
        blocks = None

        def identity(self):
            return {"dataset": self.name}

        def position(self):
            self.at += 10
            return {"position": self.at}

        def recall(self, position):
            self.recalled = position["position"]

    Walk.__abstractmethods__ = frozenset()
    monkeypatch.setattr("unskew.producers.resumption._EVERY", 0)
    walk = Walk()
    journal = UploadJournal("t", walk, tmp_path)
    journal.begin([0], "any")
    for _ in range(1000):
        journal.note()
    again = UploadJournal("t", walk, tmp_path)
    assert again.load()
    again.recall(9905)
    assert walk.recalled == 9900
    assert len(orjson.loads(next(tmp_path.glob("t-*.json")).read_bytes())["places"]) == 20


@pytest.mark.parametrize("there", [[0, 0, 0], [1, 1, 1], [5, 3, 4], [9, 9, 0], [2, 1, 1]])
def test_a_spread_begins_where_something_is_missing(there):
    start, skip = RoundRobinPlacement(3).resume(np.array(there))
    assert start % 3 == 0
    assert all(start // 3 + left == had for left, had in zip(skip, there, strict=True))
    assert min(there) == 0 or skip.min() == 1


@pytest.mark.slow
def test_kill_9_again_and_again(kafka, connection, topic, clicks, tmp_path):
    """The upload that is killed is slow: it would take a minute, and a kill comes after eight seconds."""
    load = f"produce WIKIPEDIA_CLICKSTREAM {clicks} --topic {topic} --partitions 3 --resume".split()
    environment = {**os.environ, "KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers, "UNSKEW_HOME": str(tmp_path)}
    before = 0
    for _ in range(3):
        process = subprocess.Popen([*UNSKEW, *load, "--rate", "5000"], env=environment, stderr=subprocess.DEVNULL)
        while size(connection, topic) < before + 40_000:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        before = size(connection, topic)
    assert 120_000 <= before < RECORDS
    done = subprocess.run([*UNSKEW, *load], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert contents(connection, topic) == expected(reader(clicks), 3)
    once_more = subprocess.run([*UNSKEW, *load], env=environment, capture_output=True, text=True, check=False)
    assert re.search("already: nothing to resume", once_more.stdout)
    assert size(connection, topic) == RECORDS - RECORDS // 10_000


@pytest.mark.nightly(group="documents")
def test_an_upload_that_failed_leaves_no_gap(clicks, tmp_path):
    with Broker(tmp_path / "broker") as broker:
        connection = Connection(broker.bootstrap_servers, {"delivery.timeout.ms": "3000"})
        ensure_topic(connection, "gap", 3)
        killed = []

        def kill_once(records, size):
            if records >= 100_000 and not killed:
                broker.kill()
                killed.append(records)

        with pytest.raises(DeliveryFault):
            upload(connection, "gap", reader(clicks), tmp_path, pace=Rate(100_000), progress=kill_once)
        broker.start()
        resumed = upload(connection, "gap", reader(clicks), tmp_path, resume=True)
        assert resumed.records < RECORDS
        assert contents(connection, "gap") == expected(reader(clicks), 3)
