"""Event time with many windows in one batch."""

from collections import Counter
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from tests.apps.conftest import count_by_window, countries, publish
from unskew.apps.aggregator.aggregator import WindowPublisher
from unskew.apps.aggregator.publisher import ResultPublisher, list_result_topics
from unskew.apps.driver import batch_committer
from unskew.apps.router.tuple_packets import cut_packets
from unskew.apps.worker.result_messages import ResultMessage
from unskew.apps.worker.worker import Worker
from unskew.kafka.topics import end_offsets

pytestmark = pytest.mark.ci

START = 1_700_000_000_000


@pytest.mark.parametrize("encoded", [False, True])
def test_each_tuple_is_in_its_window(encoded):
    rng = np.random.default_rng(1)
    ms = START + rng.integers(0, 5_000, 3_000)
    keys = pa.array([f"k{i}" for i in rng.integers(0, 400, 3_000)])
    tuples = pa.record_batch(
        [keys.dictionary_encode() if encoded else keys, pa.array(ms, pa.timestamp("ms", "UTC"))], ["key", "time"]
    )
    rows = pa.Table.from_batches(
        Worker(pane_ms=10)(iter([cut_packets(tuples, np.zeros(3_000, np.int32), 1)]))
    ).to_pylist()
    truth = Counter(zip((ms // 10).tolist(), keys.to_pylist(), strict=True))
    got = {(round(r["time"].timestamp() * 1000) // 10, r["key"]): r["tuples"] for r in rows}
    assert got == truth
    latest = {}
    for time in ms.tolist():
        latest[time // 10] = max(time, latest.get(time // 10, 0))
    assert {round(r["time"].timestamp() * 1000) for r in rows} == set(latest.values())


@pytest.mark.nightly(group="groupings")
def test_a_batch_sends_once(settings, drain, connection, topic, monkeypatch):
    n = 200
    publish(connection, topic, 2, countries(["a"] * n), ms=[START + 10 * i for i in range(n)])
    send, sent = ResultPublisher.send, []
    monkeypatch.setattr(ResultPublisher, "send", lambda *given: (sent.append(given[1:]), send(*given)))
    run = settings("KEY", time="event", window=0.01, run_time=600.0)
    _, reports = drain(run)
    closing = [report for report in reports if report.windows]
    assert sum(len(report.windows) for report in closing) == n
    assert len(sent) == len(closing) < 5
    assert set(count_by_window(run).values()) == {1}


@pytest.fixture
def little_room(spark):
    """Spark takes 20 KiB of results from the tasks of a job, compressed, instead of 1 GiB."""
    conf, name = spark.sparkContext._jsc.sc().conf(), "spark.driver.maxResultSize"
    before = conf.get(name, "1g")
    conf.set(name, "20k")
    yield
    conf.set(name, before)


@pytest.mark.usefixtures("little_room")
def test_a_batch_closes_more_windows_than_spark_takes_results(settings, drain, connection, topic, monkeypatch):
    n = 3_000
    publish(connection, topic, 2, countries([f"key {i % 7}" for i in range(n)]), ms=[START + 10 * i for i in range(n)])
    monkeypatch.setattr(batch_committer, "WindowPublisher", partial(WindowPublisher, most=20_000, piece=10_000))
    run = settings("SHUFFLE", time="event", window=0.01, run_time=600.0)
    _, reports = drain(run)
    windows = [window for report in reports for window, _ in report.windows]
    assert [window.start_ms for window in windows] == [START + 10 * i for i in range(n)]
    assert {int(window.tuples.sum()) for window in windows} == {1}
    assert sum(count_by_window(run).values()) == n


def test_a_batch_closes_more_windows_than_the_client_holds_records(settings, topic, connection):
    """By event time a week may close 40,320 windows of 15 s in one batch: 847,000 records with ten workers."""
    run = settings("KEY")
    records = 250_000  # the client's queue has room for 100,000 by default
    ResultPublisher(run).send("distribution", (ResultMessage(f"{i}", b"{}") for i in range(records)))
    assert sum(end_offsets(connection, list_result_topics(run)["distribution"]).values()) == records
