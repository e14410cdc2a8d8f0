"""Spark for the tests of a process, and small topologies over streams with known counts."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tests.conftest import GENERATED
from tests.waiting import PATIENCE
from unskew.apps.aggregator.publisher import list_result_topics
from unskew.apps.driver import session
from unskew.apps.driver.batch_committer import BatchReport
from unskew.apps.driver.jvm_options import EXTRA
from unskew.apps.driver.streaming_job import JobOutcome, StreamingJob
from unskew.apps.settings import Settings
from unskew.errors import EnvironmentFault
from unskew.grouping import GROUPINGS
from unskew.kafka.connection import Connection
from unskew.kafka.reader import TopicReader
from unskew.kafka.topics import ensure_topic

#: A topic with this setting takes any timestamp. Brokers have a bound of their own since Kafka 3.6.
LENIENT = {"message.timestamp.after.max.ms": str(2**63 - 1)}


@pytest.fixture(scope="session")
def spark(kernels: None) -> Iterator[SparkSession]:
    # All kernels are loaded once, before Python workers fork: not by each worker at its first tuple.
    conf = GENERATED | {"spark.executorEnv.UNSKEW_GROUPINGS": ",".join(GROUPINGS), EXTRA: "-Dof.the.user=kept"}
    started = session.start_spark("tests", "local[4]", 2, conf)
    yield started
    started.stop()


@pytest.fixture
def settings(connection: Connection, topic: str, tmp_path: Path) -> Callable[..., Settings]:
    """A topology's settings for a test: two sources, four workers, short windows."""

    def make(grouping: str = "PARTIAL_KEY", **changes: Any) -> Settings:
        given: dict[str, Any] = {
            "mode": "LOCAL",
            "source_type": "COUNTRY_SKEW_R80",
            "grouping": grouping,
            "topic": topic,
            "sources": 2,
            "workers": 4,
            "speed": "x0",
            "connection": connection,
            "checkpoint": str(tmp_path / f"checkpoint-{grouping}"),
            "window": 0.5,
            "trigger": 0.4,  # less often is cheaper: other tests use the time
            "until_drained": True,
            "run_time": 3600.0,
        }
        return Settings(**(given | changes))

    return make


@pytest.fixture
def drain(spark: SparkSession) -> Callable[..., tuple[JobOutcome, list[Any]]]:
    """Run a topology until it is drained; what it returned and the reports of its batches."""

    def run(settings: Settings) -> tuple[JobOutcome, list[Any]]:
        reports: list[Any] = []
        outcome = StreamingJob(settings, [reports.append]).run(spark)
        assert outcome.drained
        return outcome, reports

    return run


@pytest.fixture
def die_uncommitted(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Run a topology until its driver dies, when a batch for which that is due is published and not committed."""

    def run(settings: Settings, due: Callable[[BatchReport], Any]) -> None:
        def end_batch(_: StreamingJob, report: BatchReport) -> None:
            if due(report):
                raise RuntimeError("the driver dies")

        with monkeypatch.context() as patched:
            # The last thing that is done for a batch. A failure of a real listener would stop nothing.
            patched.setattr(StreamingJob, "_end_batch", end_batch)
            with pytest.raises(EnvironmentFault, match="the query failed"):
                StreamingJob(settings, []).run(spark)

    return run


def publish(
    connection: Connection, topic: str, partitions: int, values: list[bytes | None], **stamp: list[int]
) -> None:
    """Send messages round robin; ``ms`` gives each its timestamp."""
    times = stamp.get("ms", [0] * len(values))
    messages = enumerate(zip(values, times, strict=True))
    produce(
        *(connection, topic, partitions),
        ({"value": value, "partition": i % partitions, "timestamp": ms} for i, (value, ms) in messages),
    )


def produce(connection: Connection, topic: str, partitions: int, messages: Iterable[dict[str, Any]]) -> None:
    """Send messages, each of which has what Kafka's client takes."""
    ensure_topic(connection, topic, partitions)
    # In order, though a broker that has just made the topic refuses the first messages for a moment.
    producer = Producer(connection.client(**{"linger.ms": 20, "enable.idempotence": True}))
    for i, message in enumerate(messages):
        producer.produce(topic, **message)
        if i % 1000 == 0:
            producer.poll(0)
    assert producer.flush(PATIENCE) == 0


def skewed(n: int, seed: int = 0, others: int = 50) -> list[str]:
    """Keys of n tuples, four fifths of them one key."""
    rng = np.random.default_rng(seed)
    drawn = zip(rng.random(n) < 0.8, rng.integers(0, others, n), strict=True)
    return ["Turkey" if hot else f"Country {i}" for hot, i in drawn]


def true_counts(
    keys: Iterable[str], ms: Iterable[int], length: int, slide: int | None = None
) -> Counter[tuple[str, str]]:
    """(window, key) → the number of tuples, of windows of this length (ms) that may slide."""
    slide = slide or length
    return Counter(
        (f"{np.datetime64(time // slide * slide - back, 'ms')}Z", key)
        for key, time in zip(keys, ms, strict=True)
        for back in range(0, length, slide)
    )


def countries(keys: list[str]) -> list[bytes | None]:
    return [orjson.dumps({"country": key}) for key in keys]


def records(connection: Connection, topic: str) -> list[tuple[str, dict[str, Any]]]:
    """All records of a topic, (key, value), oldest first in each partition."""
    with TopicReader(connection, topic) as reader:  # not every offset has a message: the end of a transaction has one
        return [
            ((message.key() or b"").decode(), orjson.loads(message.value() or b"null")) for message in reader.to_end()
        ]


def final_counts(connection: Connection, topic: str, field: str = "count") -> dict[tuple[str, str], int]:
    """(window, key) → the final value in an aggregator topic."""
    latest = dict(records(connection, topic))
    return {(value["tags"]["window"], value["tags"]["key"]): value["fields"][field] for value in latest.values()}


def by_key(counts: dict[tuple[str, str], int]) -> Counter[str]:
    totals: Counter[str] = Counter()
    for (_, key), count in counts.items():
        totals[key] += count
    return totals


def read_results(run: Settings, role: str) -> list[tuple[str, dict[str, Any]]]:
    """All records of a run's topic of this role."""
    return records(run.connection, list_result_topics(run)[role])


def count_by_window(run: Settings) -> dict[tuple[str, str], int]:
    """(window, key) → the final count of a run."""
    return final_counts(run.connection, list_result_topics(run)["aggregator"])


def count_by_key(run: Settings) -> Counter[str]:
    """Key → the sum of a run's final counts."""
    return by_key(count_by_window(run))
