"""Running totals while windows are open: a consumer that keeps the newest record of each key ends with exact counts."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.apps.conftest import by_key, count_by_window, countries, publish, read_results, records, skewed, true_counts
from tests.apps.local_settings import settings as settings_of_nothing
from tests.apps.topology.distributions import require_distribution
from tests.harness.topology import START
from tests.harness.totals import consume_totals
from unskew.apps.aggregator.aggregator import MERGED
from unskew.apps.aggregator.changes import (
    WindowChanges,
    add_changes,
    count_workers,
    merge_changes,
    observe_changes,
    take_closed,
)
from unskew.apps.aggregator.observer import Distribution
from unskew.apps.aggregator.publisher import list_result_topics
from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.apps.checkpoint.versions import Totals
from unskew.apps.driver import preconditions
from unskew.apps.driver.batch_committer import BatchCommitter, BatchReport
from unskew.apps.driver.preconditions import load_or_create_partitions
from unskew.apps.driver.streaming_job import StreamingJob
from unskew.apps.metrics.metrics_reporter import sample_window
from unskew.apps.operators.statistics import Statistics
from unskew.apps.settings import Settings
from unskew.apps.worker.counting_stage import MASK_BITS, TOTAL
from unskew.apps.worker.stages import make_stage
from unskew.errors import EnvironmentFault, UsageError

W, LENGTH = 70, 500  # two masks

# (window, key, worker, tuples, count)
parts = st.tuples(
    st.integers(0, 2),
    st.sampled_from("abcdefghijklmnop"),
    st.sampled_from([0, 1, 62, 63, 69]),
    st.integers(1, 4),
    st.integers(-3, 9),
)


class State:
    """What Spark does: it adds up (window, key, slot), and gives the rows that a batch has changed."""

    def __init__(self) -> None:
        self.rows: dict[tuple[int, str | None, int], dict[str, Any]] = {}

    def update(self, batch: int, partials: Iterable[tuple[int, str, int, int, int]]) -> list[dict[str, Any]]:
        touched = {}
        for window, key, worker, tuples, count in partials:
            for its, slot in ((key, TOTAL), (key, worker), (None, worker)):
                first = {"start": LENGTH * window, "end": LENGTH * (window + 1), "key": its, "slot": slot}
                empty = first | {"tuples": 0, "count": 0, "batch": batch, "latest": 0, "mask0": 0, "mask1": 0}
                row = self.rows.setdefault((window, its, slot), empty)
                row["tuples"] += tuples
                row["count"] += count
                row["latest"] = max(row["latest"], LENGTH * window + batch)
                if its is not None:
                    row[f"mask{worker // MASK_BITS}"] |= 1 << worker % MASK_BITS
                touched[window, its, slot] = row
        return [dict(row) for row in touched.values()]


def observe(rows: list[dict[str, Any]], batch: int) -> list[WindowChanges]:
    kinds = {"key": pa.string(), "slot": pa.int32()}
    schema = pa.schema([(name, kinds.get(name, pa.int64())) for name in rows[0]])
    given_rows = pa.RecordBatch.from_pylist(rows, schema)
    totals = pa.RecordBatch.from_pylist([row for row in rows if row["slot"] == TOTAL], schema)
    columns = [totals.column(name) for name in MERGED.names[:-1]]
    merged = pa.table([*columns, pa.array(count_workers(totals))], schema=MERGED)
    return [WindowChanges.unpack(each.pack()) for each in observe_changes(given_rows, merged, batch)]


@given(st.lists(st.lists(parts, max_size=30), max_size=6), st.integers(1, 3))
def test_what_batches_change_makes_up_the_windows(batches, tasks):
    state, windows = State(), {}
    for number, partials in enumerate(batches):
        changed = state.update(number, partials)
        changes = []
        for task in range(tasks):
            rows = [row for at, row in enumerate(changed) if at % tasks == task]
            half = len(rows) // 2  # a task gets its rows in several Arrow batches
            found: dict[int, WindowChanges] = {}
            for piece in (rows[:half], rows[half:]):
                for each in observe(piece, number) if piece else ():
                    found[each.start_ms] = merge_changes(found[each.start_ms], each) if each.start_ms in found else each
            changes += found.values()
        windows = add_changes(orjson.loads(orjson.dumps(windows)), changes, 4)
    truth: dict[int, list[tuple[str, int, int, int]]] = defaultdict(list)
    for window, *rest in (each for partials in batches for each in partials):
        truth[window].append(tuple(rest))
    still, closed = take_closed(windows, LENGTH * 2)
    assert list(still) == [str(LENGTH * window) for window in sorted(truth) if window == 2]
    closed += take_closed(still, LENGTH * 3)[1]
    assert [(each.start_ms, each.end_ms) for each in closed] == [(LENGTH * w, LENGTH * (w + 1)) for w in sorted(truth)]
    for each in closed:
        require_distribution(each, truth[each.start_ms // LENGTH], max(len(each.tuples), 4))


def test_a_window_has_the_loads_of_workers_that_came_while_it_was_open():
    first = WindowChanges(0, LENGTH, 1, [(0, 3, 3)], [(0, 1)], 1, [])
    windows = add_changes({}, [first], 2)
    (window,) = add_changes(windows, [replace(first, loads=[(0, 4, 4)])], 5).values()
    assert window["tuples"] == [4, 0, 0, 0, 0]


def die_uncommitted(
    monkeypatch: pytest.MonkeyPatch, spark: SparkSession, run: Settings, due: Callable[[BatchReport], bool]
) -> None:
    """Run until a batch for which this is due: all of it is published, and Spark hasn't committed it."""
    commit = BatchCommitter._commit_changes

    def dies(committer, df, batch, write):
        found = commit(committer, df, batch, write)
        if due(found[0]):
            raise RuntimeError("the driver dies")
        return found

    with monkeypatch.context() as patched:
        patched.setattr(BatchCommitter, "_commit_changes", dies)
        with pytest.raises(EnvironmentFault, match="the query failed"):
            StreamingJob(run, []).run(spark)


def test_a_consumer_that_keeps_the_newest_totals_has_the_counts(settings, drain, connection, topic):
    keys = skewed(6_000)
    publish(connection, topic, 2, countries(keys))
    run = settings("PARTIAL_KEY", emit="changes", max_tuples=1_000, window=2.0)
    _, reports = drain(run)
    assert by_key(consume_totals(connection, list_result_topics(run)["aggregator"])) == Counter(keys)
    assert reports[-1].totals.tuples == reports[-1].totals.routed == len(keys)
    assert not reports[-1].totals.open
    found = dict(read_results(run, "distribution")).values()
    events = [value["fields"] for value in found if value["key"] == "EVENT_INFO"]
    assert sum(event["tuples"] for event in events) == len(keys)
    assert max(event["DIST_COST"] for event in events) > 1
    assert sum(value["fields"]["tuples"] for value in found if value["key"] == "WORKER") == len(keys)


def test_late_tuples_change_nothing_after_a_mark(settings, drain, connection, topic):
    keys = skewed(4_000)
    rng = np.random.default_rng(1)
    ms = [START + 10 * at - int(late) for at, late in enumerate(rng.exponential(900, len(keys)))]
    publish(connection, topic, 1, countries(keys), ms=ms)
    run = settings("KEY", sources=1, time="event", window=2.0, lateness=1.0, max_tuples=300, emit="changes")
    _, reports = drain(run)
    totals = reports[-1].totals
    assert totals.late > 0
    assert (sum(consume_totals(connection, list_result_topics(run)["aggregator"]).values()), totals.tuples) == (
        len(keys) - totals.late,
    ) * 2
    assert totals.routed == len(keys)


@pytest.mark.ci
def test_totals_go_on_with_other_workers_and_twice_nothing_is_published(
    settings, spark, drain, connection, topic, monkeypatch
):
    keys = skewed(3_000)
    ms = [START + at for at in range(len(keys))]
    publish(connection, topic, 2, countries(keys[:2_000]), ms=ms[:2_000])
    given_settings = {"time": "event", "window": 30.0, "emit": "changes", "delivery": "exactly-once", "max_tuples": 500}
    run = settings("PARTIAL_KEY", **given_settings)
    die_uncommitted(monkeypatch, spark, run, lambda report: report.batch.number == 2)
    StreamingJob(replace(run, run_time=6.0, until_drained=False), []).run(spark)  # the window stays open
    publish(connection, topic, 2, countries(keys[2_000:]), ms=ms[2_000:])
    more = settings("PARTIAL_KEY", **given_settings, workers=7)
    _, reports = drain(more)
    assert list_result_topics(more)["aggregator"] == list_result_topics(run)["aggregator"]
    aggregated = list_result_topics(more)["aggregator"]
    assert by_key(consume_totals(connection, aggregated)) == Counter(keys)
    written = Counter((key, value["batch"]["number"]) for key, value in records(connection, aggregated) if "/" in key)
    assert set(written.values()) == {1}
    assert reports[-1].totals.tuples == len(keys)


@pytest.mark.ci
@pytest.mark.parametrize("emit", ["changes", "final"])
def test_sliding_windows_overlap(emit, settings, drain, connection, topic):
    keys = skewed(2_000)
    ms = [START + 7 * at - (at * 389) % 900 for at in range(len(keys))]
    publish(connection, topic, 2, countries(keys), ms=ms)
    run = settings("PARTIAL_KEY", time="event", window=3.0, slide=1.0, lateness=1.0, emit=emit, max_tuples=500)
    _, reports = drain(run)
    of = list_result_topics(run)["aggregator"]
    counts = consume_totals(connection, of) if emit == "changes" else count_by_window(run)
    assert counts == true_counts(keys, ms, 3000, 1000)
    totals = reports[-1].totals
    assert (totals.routed, totals.tuples, totals.late) == (len(keys), len(keys), 0)


@pytest.mark.ci
def test_what_a_flush_has_closed_stays_closed_though_the_driver_dies(
    settings, spark, drain, connection, topic, monkeypatch
):
    keys = skewed(1_000)
    ms = [START + at for at in range(len(keys))]
    publish(connection, topic, 2, countries(keys), ms=ms)
    run = settings("PARTIAL_KEY", time="event", window=30.0, lateness=1.0, emit="changes", until_drained=True)
    die_uncommitted(monkeypatch, spark, run, lambda report: bool(report.windows))
    publish(connection, topic, 2, countries(keys), ms=ms)  # of the same window
    _, reports = drain(run)
    counts = by_key(consume_totals(connection, list_result_topics(run)["aggregator"]))
    assert counts.total() + reports[-1].totals.late == 2 * len(keys)


@pytest.mark.ci
def test_parts_that_a_driver_with_fewer_cores_has_noted_are_the_states(settings, drain, connection, topic):
    keys = skewed(1_000)
    publish(connection, topic, 2, countries(keys))
    run = settings("PARTIAL_KEY", emit="changes", delivery="exactly-once", window=2.0)
    checkpoint = Checkpoint(run.location)
    checkpoint.claim({"emit": run.emit})  # as a driver does before
    assert load_or_create_partitions(run, checkpoint, 1) is not None
    drain(run)
    assert by_key(consume_totals(connection, list_result_topics(run)["aggregator"])) == Counter(keys)


def test_state_that_has_partitions_gives_their_number_to_the_parts(monkeypatch):
    run = settings_of_nothing(emit="changes", delivery="exactly-once")
    given_parts: list[int] = []
    checkpoint: Any
    monkeypatch.setattr(preconditions, "load_or_create", lambda _, parts, __: given_parts.append(parts))
    for planned in (8, None):
        checkpoint = SimpleNamespace(partitions=lambda planned=planned: planned)
        load_or_create_partitions(run, checkpoint, 2)
    assert given_parts == [8, 2]


def test_more_workers_than_the_state_has_bits_for_are_refused(tmp_path):
    stage = make_stage(settings_of_nothing(emit="changes", workers=127, checkpoint=str(tmp_path)))
    assert stage.changed_fields({"workerMasks": 3}) == {"workerMasks": 3}
    with pytest.raises(UsageError, match=r"numWorkers is 127; valid on the checkpoint .*: at most 126"):
        stage.changed_fields({"workerMasks": 2})


def test_a_keyed_operator_publishes_its_own_changes():
    with pytest.raises(UsageError, match="emit is 'changes'; valid for a work with states: final"):
        make_stage(settings_of_nothing(emit="changes", work=Statistics()))


def test_a_sliding_window_is_sampled_before_any_counts_in_the_totals():
    loads = np.array([3, 0], np.int64)
    samples = list(sample_window(Distribution(1000, 4000, loads, loads, loads, 1, []), Totals(started_ms=0)))
    assert [sample.values["closed"] for sample in samples if "closed" in sample.values] == [0, 0]
