"""The page for Prometheus of a query of one's own, which is a stand-in here."""

import json
import logging
import re
import socket
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from pyspark.sql import Row

from tests.http import series
from tests.waiting import awaited
from unskew import watch
from unskew.apps.metrics import query_offsets, query_page
from unskew.apps.metrics.balance_observation import WorkerLoad
from unskew.apps.metrics.catalogue import METRICS
from unskew.apps.metrics.write_reports import WriteReport, record_write
from unskew.errors import UsageError
from unskew.kafka.topics import ensure_topic

KAFKA = {
    "description": "KafkaV2[Subscribe[events]]",
    "endOffset": {"events": {"0": 30, "1": 12}},
    "latestOffset": {"events": {"0": 35, "1": 12}},
    "inputRowsPerSecond": 5.0,
    "processedRowsPerSecond": 50.0,
}
FILES = {"description": "FileStreamSource[file:/in]", "endOffset": {"logOffset": 1}, "latestOffset": None}


def progress(number, *loads, source=KAFKA, **observed):
    """A batch whose workers have reported these loads. Without loads, the query idles."""
    given = {f"worker_{w}": WorkerLoad(n, n, n / 10, 2 * n, 16 * n).text() for w, n in enumerate(loads)}
    of = {"unskew": Row(**given, grouping="KEY")} if loads else observed
    time = f"2026-01-01T00:00:0{number}.000Z"
    text = {
        "timestamp": time,
        "batchId": number,
        "durationMs": {"triggerExecution": 700, "addBatch": 500},
        "stateOperators": [{"operatorName": "transformWithStateExec", "memoryUsedBytes": 9, "numRowsTotal": 3}],
        "sources": [source],
        "inputRowsPerSecond": 7.0,
        "processedRowsPerSecond": 70.0,
        "eventTime": {"watermark": "2026-01-01T00:00:00.000Z"},
    }
    rows = {"numInputRows": sum(loads), "observedMetrics": of, "json": json.dumps(text)}
    return SimpleNamespace(batchId=number, timestamp=time, **rows)


def query(*progresses):
    return SimpleNamespace(name="mine", id="0-1", recentProgress=list(progresses))


def found(page):
    """Name, with the worker if there is one → value."""
    values = {}
    for each, value in series(page.url).items():
        worker = re.search(r'[{,]worker="(\d+)"', each)
        values[each.split("{")[0] + (f" {worker[1]}" if worker else "")] = value
    return values


def test_batches_are_shown_by_the_names_of_the_catalogue():
    mine = query(progress(0, 3, 1))
    with watch(mine).serve() as page:
        first = found(page)
        assert {name.split(" ")[0] for name in first} <= {metric.prometheus_name for metric in METRICS}
        assert (first["unskew_run_tuples_total"], first["unskew_worker_closed_total 0"]) == (4, 3)
        assert (first["unskew_batch_tuples"], first["unskew_batch_std_dev_ratio"]) == (4, 0.25)
        assert first["unskew_batch_straggling_ratio"] == pytest.approx(1.5)
        assert (first["unskew_task_tuples 1"], first["unskew_task_busy_seconds 1"]) == (1, 0.1)
        assert (first["unskew_worker_states_states 0"], first["unskew_worker_states_size_bytes 0"]) == (6, 48)
        assert (first["unskew_window_imbalance"], first["unskew_window_dist_cost"]) == (1, 1)
        assert (first["unskew_query_lag"], first["unskew_source_offset_total"]) == (5, 12)
        assert first["unskew_query_input_rate_per_second"] == 5
        assert first["unskew_query_duration_seconds"] == 0.7
        # A batch counts once, however often the page is asked for, and an idle query adds nothing.
        mine.recentProgress += [progress(1, 1, 1), progress(2)]
        for _ in range(2):
            then = found(page)
        assert (then["unskew_run_tuples_total"], then["unskew_worker_closed_total 0"]) == (6, 4)
        assert (then["unskew_batch_std_dev_ratio"], then["unskew_query_batch_number"]) == (0, 1)
        assert all('grouping="KEY",run="mine"' in each and 'source_type="QUERY"' in each for each in series(page.url))


class Ends:
    """The ends of a topic's partitions. The first one's last five messages are of an open transaction."""

    def __init__(self, connection, topic):
        assert topic == "events"

    def ask(self, partitions, *, committed, stopped):
        return {0: 35, 1: 12} if committed else {0: 40, 1: 12}


@pytest.mark.parametrize(("latest", "expected"), [(35, (5, 10)), (37, (0, 7))])
def test_what_an_open_transaction_holds_back(monkeypatch, latest, expected):
    """Spark has planned up to the transaction, or beyond its beginning: the query reads uncommitted messages."""
    monkeypatch.setattr(query_page, "EndOffsets", Ends)
    source = KAFKA | {"latestOffset": {"events": {"0": latest, "1": 12}}}
    watched = watch(query(progress(0, 3, 1, source=source)), bootstrap_servers="localhost:1")
    with watched.serve() as page:
        values = found(page)
    assert (values["unskew_query_held_back"], values["unskew_query_lag"]) == expected
    assert "bootstrap" not in repr(watched)


class Ending:
    """A query that ends with its second batch."""

    def __init__(self, *progresses):
        self._progresses = list(progresses)

    @property
    def isActive(self):  # noqa: N802
        return len(self._progresses) > 1

    @property
    def lastProgress(self):  # noqa: N802
        return self._progresses.pop(0) if self.isActive else self._progresses[0]


def test_offsets_are_committed_until_the_query_ends(monkeypatch, caplog):
    committed = []

    class Group(nullcontext):
        def __init__(self, connection, name):
            super().__init__(self)
            self.name = name

        def commit(self, topic, offsets):
            committed.append((self.name, topic, dict(offsets)))

    monkeypatch.setattr(query_offsets, "ConsumerGroup", Group)
    two = progress(1, 1, 1, source=KAFKA | {"endOffset": {"events": {"0": 31}, "others": {"0": 9}}})
    ending = Ending(progress(0, 1, 1, source=FILES), two, two, two)
    query_offsets.commit_progress(ending, None, "mine", every=0.0).join(10)
    assert committed == [("mine", "events", {"0": 31}), ("mine", "others", {"0": 9})], "each batch once"
    with caplog.at_level(logging.WARNING):
        query_offsets.commit_progress(SimpleNamespace(isActive=True), None, "mine").join(10)
    assert "no more offsets are committed to the consumer group mine: " in caplog.text


def test_lag_tools_see_a_query(connection, topic):
    ensure_topic(connection, topic, 2)
    source = KAFKA | {"endOffset": {topic: {"0": 7, "1": 0}}}
    watch(Ending(progress(0, 1, 1, source=source)), group=topic, bootstrap_servers=connection.bootstrap_servers)
    wanted, admin = [ConsumerGroupTopicPartitions(topic)], connection.admin()

    def offsets():
        (group,) = (each.result() for each in admin.list_consumer_group_offsets(wanted).values())
        return {part.partition: part.offset for part in group.topic_partitions} == {0: 7, 1: 0}

    awaited(offsets, "the offsets are committed")


def test_a_group_that_is_none_and_brokers_that_are_none():
    with pytest.raises(UsageError, match=r"^group is ''; valid: a consumer group's name$"):
        watch(query(), group="")
    with pytest.raises(UsageError, match="'localhost' is no Kafka address"):
        watch(query(), group="g", bootstrap_servers="localhost")


def test_rows_that_spark_counts_itself_have_no_time_at_work():
    """The stream of `balance` over files."""
    given = progress(0, source=FILES, unskew=Row(worker_0=6, worker_1=2, worker_2=0, keys=4, replicas=6))
    given.numInputRows = 8
    with watch(query(given)).serve(run="r", grouping="PARTIAL_KEY") as page:
        values = found(page)
        assert all('grouping="PARTIAL_KEY",run="r"' in each for each in series(page.url))
    assert (values["unskew_window_dist_cost"], values["unskew_window_idle_workers"]) == (1.5, 1)
    assert values["unskew_query_input_rate_per_second"] == 7
    assert not [name for name in values if "busy" in name or "straggling" in name or "states" in name]
    assert "unskew_query_lag" not in values


def test_writes_are_shown_without_an_observation(caplog):
    writes = query(progress(0, source=FILES))
    writes.id, writes.recentProgress[0].numInputRows = "only-writes", 100
    for batch, files in ((0, 5), (0, 2), (1, 4)):  # two tables in batch 0
        record_write("only-writes", batch, 0.5, 4, WriteReport(files, 3, 1, 2, 1.25, 100, 800.0))
    record_write("another", 0, 0.5, 4, WriteReport(9, 9, 9, 9, 9, 9, 9))
    with watch(writes).serve() as page, caplog.at_level(logging.WARNING):
        values = [found(page) for _ in range(2)][1]
        assert all('grouping="PLANNED"' in each and 'workers="4"' in each for each in series(page.url))
    assert (values["unskew_write_files_total"], values["unskew_write_rows_total"]) == (11, 300)
    assert (values["unskew_write_fullest_ratio"], values["unskew_write_duration_seconds"]) == (1.25, 0.5)
    assert [write.batch for write in watch(writes).writes()] == [0, 0, 1]
    assert not caplog.records


class Gone:
    """A query whose session has ended after a first answer."""

    name, id = None, "0-1"

    def __init__(self):
        self.answers = [[progress(0, 2, 2)]]

    @property
    def recentProgress(self):  # noqa: N802
        if not self.answers:
            raise ConnectionError("the session has ended")
        return self.answers.pop()


def test_a_query_that_is_gone_leaves_its_page(caplog):
    with watch(Gone()).serve() as page, caplog.at_level(logging.WARNING):
        first = series(page.url)
        assert first == series(page.url) == series(page.url)
        assert all('run="0-1"' in each for each in first)
    assert [record.getMessage() for record in caplog.records] == [
        "the page of the query stays as it is: the session has ended"
    ]


def test_a_port_that_is_no_port():
    with pytest.raises(UsageError, match="port is 65536; valid: 0"):
        watch(query()).serve(65536)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"^port {port} isn't free at 127.0.0.1 .*and as host an address"):
            watch(query()).serve(port)
