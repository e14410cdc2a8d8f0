"""What becomes of the rows of closed windows: merged by key, rendered, observed, and written by one job a batch."""

from collections import defaultdict
from itertools import pairwise

import orjson
import pyarrow as pa
import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F

from tests.apps.conftest import count_by_key, countries, publish
from tests.apps.topology.distributions import require_distribution
from unskew.apps.aggregator.aggregator import MERGED, PartialMerger, make_count_records
from unskew.apps.aggregator.observer import Distribution, Observer, merge_distributions
from unskew.apps.aggregator.publisher import list_result_topics
from unskew.apps.driver.batch_committer import BatchCommitter
from unskew.apps.driver.streaming_job import StreamingJob
from unskew.errors import EnvironmentFault

W, LENGTH = 3, 500
# window and key → worker → (tuples, count)
partials = st.dictionaries(
    st.tuples(st.integers(0, 3), st.sampled_from("abcdefghijklmnopqrstuvwxyz")),
    st.dictionaries(
        st.integers(0, W - 1), st.tuples(st.integers(1, 4), st.integers(-9, 1 << 50)), min_size=1, max_size=W
    ),
    max_size=60,
)


def rows(partials):
    """Sorted as the tasks get them."""
    columns = [
        (LENGTH * window, LENGTH * (window + 1), key, worker, tuples, count)
        for (window, key), on in sorted(partials.items())
        for worker, (tuples, count) in on.items()
    ]
    kinds = (pa.int64(), pa.int64(), pa.string(), pa.int32(), pa.int64(), pa.int64())
    arrays = [pa.array([row[i] for row in columns], kind) for i, kind in enumerate(kinds)]
    return pa.record_batch(arrays, ["start", "end", "key", "worker", "tuples", "count"])


def pass_by(batch, cuts):
    """Pass rows through a merger and an observer in pieces; what these give."""
    bounds = sorted({0, batch.num_rows, *(cut % (batch.num_rows + 1) for cut in cuts)})
    merger, observer, merged, parts = PartialMerger(), Observer(W), [], []
    for start, stop in pairwise(bounds):
        piece = batch.slice(start, stop - start)
        observer.rows(piece)
        merged.append(merger.add(piece))
        observer.keys(merged[-1])
        parts += observer.finish(before=piece.column("start")[-1].as_py())
    merged.append(merger.finish())
    observer.keys(merged[-1])
    return pa.concat_tables(merged), [*parts, *observer.finish()]


@given(partials, st.lists(st.integers(0, 200), max_size=5))
def test_wherever_the_rows_are_cut_each_key_is_merged_once(partials, cuts):
    merged, _ = pass_by(rows(partials), cuts)
    assert merged.schema == MERGED
    got = [tuple(row.values()) for row in merged.to_pylist()]
    assert got == [
        (LENGTH * window, LENGTH * (window + 1), key, *map(sum, zip(*on.values(), strict=True)), len(on))
        for (window, key), on in sorted(partials.items())
    ]


@given(partials, st.lists(st.integers(0, 200), max_size=5), st.integers(1, 3))
def test_the_tasks_parts_make_up_the_windows(partials, cuts, tasks):
    parts: list[list[Distribution]] = []
    for task in range(tasks):
        share = {row: on for row, on in partials.items() if ord(row[1]) % tasks == task}
        parts.append([Distribution.unpack(part.pack()) for part in pass_by(rows(share), cuts)[1]])
    windows = defaultdict(list)
    for (window, key), on in partials.items():
        windows[window] += [(key, worker, *row) for worker, row in on.items()]
    found = list(merge_distributions(parts))
    assert [(d.start_ms, d.end_ms) for d in found] == [(LENGTH * w, LENGTH * (w + 1)) for w in sorted(windows)]
    for distribution in found:
        require_distribution(distribution, windows[distribution.start_ms // LENGTH], W)


def test_records_are_those_that_spark_wrote(spark):
    """Byte for byte, but for how a control character is escaped: a later version may publish a record again."""
    odd = ["", "a/b", "Türkiye", "𝄞 \u2028", "</x>", *map(chr, range(128))]
    given_rows = [(1_700_000_000_000 + 7 * i, 1_700_000_000_500, key, i, -i, 3) for i, key in enumerate(odd)]
    kinds = "start long, end long, key string, tuples long, count long, workers long"
    start = F.date_format(F.timestamp_millis("start"), "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
    name = F.concat(start, F.lit("/"), F.col("key"))
    body = F.struct(
        "key",
        F.substring(F.sha2(name, 256), 1, 32).alias("messageId"),
        F.col("end").alias("timestamp"),
        F.struct("key", start.alias("window")).alias("tags"),
        F.struct("count", "tuples", "workers").alias("fields"),
    )
    rows = spark.createDataFrame(given_rows, kinds).select(name.cast("binary"), F.to_json(body).cast("binary"))
    columns = zip(*given_rows, strict=True)
    merged = pa.table([pa.array(column, field.type) for column, field in zip(columns, MERGED, strict=True)], MERGED)
    for key, ours, (name, value) in zip(odd, make_count_records(merged), rows.collect(), strict=True):
        assert (ours["key"], orjson.loads(ours["value"])) == (bytes(name), orjson.loads(bytes(value)))
        assert ours["value"] == bytes(value) or min(key) < " ", "else the same bytes"
    assert all(orjson.loads(r["value"])["key"] == key for r, key in zip(make_count_records(merged), odd, strict=True))


@pytest.mark.nightly(group="groupings")
def test_a_batch_is_one_job(settings, spark, connection, topic):
    publish(connection, topic, 2, countries(["a", "b", "c"] * 200))
    progress: list = []
    run = settings("PARTIAL_KEY", max_tuples=200, window=0.5)
    outcome = StreamingJob(run, [], [progress.append]).run(spark)
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup(progress[0]["runId"])
    assert len(jobs) == outcome.batches == len(progress)
    assert count_by_key(run) == dict.fromkeys("abc", 200)


@pytest.mark.nightly(group="groupings")
def test_windows_that_close_unexpectedly_are_not_lost(settings, drain, connection, topic, monkeypatch):
    monkeypatch.setattr(BatchCommitter, "_may_close", lambda *_: False)
    publish(connection, topic, 2, countries(["a", "b", "c"] * 200))
    run = settings("SHUFFLE", max_tuples=200, window=0.5)
    _, reports = drain(run)
    assert count_by_key(run) == dict.fromkeys("abc", 200)
    assert reports[-1].totals.tuples == reports[-1].totals.routed == 600


@pytest.mark.nightly(group="groupings")
def test_a_record_that_kafka_refuses_ends_the_run_in_one_line(settings, spark, connection, topic):
    publish(connection, topic, 2, countries(["a", "b" * 2000]))
    run = settings("KEY")
    results = list_result_topics(run)["aggregator"]

    def lower(_):
        """After a batch, whose window is still open: a limit that was too low at the start would have been refused."""
        limit = ConfigEntry("max.message.bytes", "1000", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, results, incremental_configs=[limit])
        admin = connection.admin()  # without a name for it its requests end with it
        for done in admin.incremental_alter_configs([resource]).values():
            done.result()

    with pytest.raises(EnvironmentFault) as error:
        StreamingJob(run, [lower]).run(spark)
    line = str(error.value)
    assert "\n" not in line
    written = f"records were not written to {results} (Broker: Message size too large)"
    assert written in line
