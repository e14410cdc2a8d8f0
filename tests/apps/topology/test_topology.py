"""The whole topology against a real broker: counts are exact, whatever the routing and whatever messages claim."""

from collections import Counter

import numpy as np
import orjson
import pyarrow as pa
import pytest

from tests.apps.conftest import (
    by_key,
    count_by_key,
    count_by_window,
    countries,
    final_counts,
    publish,
    read_results,
    records,
    skewed,
    true_counts,
)
from tests.harness.topology import START
from tests.tiers import nightly_but
from unskew.apps.aggregator.publisher import list_result_topics
from unskew.grouping.registry import STANDALONE
from unskew.kafka.reader import TopicReader
from unskew.kafka.topics import count_partitions, ensure_topic

MOST = ("KEY", "DYNAMIC_KEY")  # of what a grouping may do


@pytest.mark.parametrize("grouping", nightly_but(MOST, STANDALONE, "groupings"))
def test_counts_are_exact(grouping, settings, drain, connection, topic):
    keys = skewed(16_000)
    publish(connection, topic, 2, countries(keys))
    run = settings(grouping, max_tuples=6_000)
    _, reports = drain(run)
    assert count_by_key(run) == Counter(keys)
    assert reports[-1].totals.tuples == reports[-1].totals.routed == len(keys)
    assert sum(report.batch.number for report in reports) > 0, "one batch would prove little"


@pytest.mark.nightly(group="groupings")
def test_result_topics_that_operators_made_are_used_as_they_are(settings, drain, connection, topic):
    keys = skewed(1_000)
    publish(connection, topic, 2, [*countries(keys), b"bad"])
    run = settings("PARTIAL_KEY")
    made = dict(zip(list_result_topics(run).values(), (5, 1, 7), strict=True))
    for name, partitions in made.items():
        ensure_topic(connection, name, partitions, {"cleanup.policy": "compact"})
    drain(run)
    assert count_by_key(run) == Counter(keys)
    for name, partitions in made.items():
        assert count_partitions(connection, name) == partitions
        with TopicReader(connection, name) as reader:
            assert len(list(reader.to_end())) == len(records(connection, name)) > 0


@pytest.mark.nightly(group="groupings")
def test_routing_is_the_groupings(settings, drain, connection, topic):
    keys = skewed(5_000)
    publish(connection, topic, 2, countries(keys))
    windows = {}
    for grouping in ("SHUFFLE", "KEY", "PARTIAL_KEY"):
        _, reports = drain(settings(grouping))
        windows[grouping] = reports[-1].totals
        assert sum(windows[grouping].loads) == len(keys)
    # round robin from two sources; one worker a key; two workers for the hot one
    assert max(windows["SHUFFLE"].loads) - min(windows["SHUFFLE"].loads) <= 2
    assert windows["KEY"].assignments == windows["KEY"].keys
    assert max(windows["KEY"].loads) >= Counter(keys)["Turkey"]
    assert max(windows["PARTIAL_KEY"].loads) < max(windows["KEY"].loads)


@pytest.mark.nightly(group="groupings")
def test_state_goes_on_from_batch_to_batch(settings, drain, connection, topic):
    publish(connection, topic, 2, countries(["a"] * 39 + ["b"]))
    _, reports = drain(settings("SHUFFLE", max_tuples=10, trigger=0.0, workers=7))
    # 5 tuples a source and batch over 7 workers: only with memory of the turn are all workers even at the end
    loads = reports[-1].totals.loads
    assert max(loads) - min(loads) <= 2


def test_rejected_messages_are_published_and_stop_nothing(settings, drain, connection, topic):
    good, bad = countries(["Chad"] * 50), [b"{", b'{"x":1}', b'{"country":5}', None, b'{"country":"\xff"}']
    publish(connection, topic, 2, [*good[:25], *bad, *good[25:]])
    run = settings("KEY")
    _, reports = drain(run)
    assert reports[-1].totals.rejected == len(bad)
    assert count_by_key(run) == {"Chad": 50}
    found = records(connection, f"{topic}-rejected")
    assert sorted(value["reason"] for _, value in found) == [
        *("field 'country' is BIGINT, not STRING", "no field 'country'"),
        *("no value", "not JSON", "not UTF-8"),
    ]
    for key, value in found:
        assert key == f"{topic}-{value['partition']}-{value['offset']}"


@pytest.mark.nightly(group="groupings")
def test_only_rejected_messages(settings, drain, connection, topic):
    publish(connection, topic, 2, [b"?"] * 10)
    _, reports = drain(settings("DYNAMIC_KEY"))
    assert (reports[-1].totals.rejected, reports[-1].totals.tuples) == (10, 0)


def test_event_time_windows_equal_the_truth_of_the_topic(settings, drain, connection, topic):
    start = 1_700_000_000_000
    keys = skewed(3_000)
    # 21 s in five batches, out of order by less than the lateness. (Spark drops a row by the watermark of the batch
    # before, so that tuples have to be late by more than a batch.)
    ms = [start + 7 * i - (1009 * i) % 9_500 for i in range(len(keys))]
    publish(connection, topic, 2, countries(keys), ms=ms)
    run = settings("PARTIAL_KEY", time="event", window=2.0, lateness=10.0, max_tuples=700)
    _, reports = drain(run)
    assert count_by_window(run) == true_counts(keys, ms, 2000)
    assert reports[-1].totals.late == 0


def test_what_is_late_is_counted(settings, drain, connection, topic):
    start = 1_700_000_000_000
    # a minute in order, then ten tuples of its first second: windows long closed by then
    ms = [start + 20 * i for i in range(3_000)] + [start + 1] * 10
    publish(connection, topic, 1, countries(["a"] * len(ms)), ms=ms)
    run = settings("KEY", sources=1, time="event", window=5.0, lateness=1.0, max_tuples=600)
    _, reports = drain(run)
    totals = reports[-1].totals
    assert (totals.late, totals.tuples) == (10, 3_000)


def test_the_distribution_topic(settings, drain, connection, topic):
    keys = skewed(4_000)
    publish(connection, topic, 2, countries(keys), ms=[1_700_000_000_000] * len(keys))
    run = settings("PARTIAL_KEY", time="event", window=5.0, lateness=1.0)
    drain(run)
    found = [value for _, value in dict(read_results(run, "distribution")).items()]
    (event,) = (value["fields"] for value in found if value["key"] == "EVENT_INFO")
    assert event["tuples"] == len(keys)
    workers = [value for value in found if value["key"] == "WORKER"]
    assert len(workers) == 4
    loads = np.zeros(4)
    for value in workers:
        loads[int(value["tags"]["worker"])] += value["fields"]["tuples"]
    share = 100 * loads / loads.sum()
    assert event["STD_DEV"] == pytest.approx(share.std())
    assert event["imbalance"] == pytest.approx(loads.max() - loads.mean())
    hottest = [value for value in found if value["key"] == "HOT_KEY" and value["fields"]["rank"] == 1]
    assert {value["tags"]["key"] for value in hottest} == {"Turkey"}


@pytest.mark.nightly(group="groupings")
def test_the_users_work(settings, drain, connection, topic):
    def score(tuples: pa.RecordBatch) -> pa.RecordBatch:
        # two results for a hot tuple, none for the others
        hot = [key for key in tuples.column("key").to_pylist() if key == "Turkey"]
        results = pa.array([10] * (2 * len(hot)), pa.int64())
        return pa.record_batch([pa.array(hot * 2, pa.string()), results], ["key", "count"])

    keys = skewed(1_000)
    publish(connection, topic, 2, countries(keys))
    run = settings("SHUFFLE", work=score, work_columns=("offset",))
    _, reports = drain(run)
    assert count_by_key(run)["Turkey"] == 20 * keys.count("Turkey")
    assert reports[-1].totals.tuples == len(keys)  # loads are counted in tuples, whatever the work yields


@pytest.mark.nightly(group="groupings")
def test_the_users_work_reads_a_field(settings, drain, connection, topic):
    def add_amounts(tuples: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch([tuples.column("key"), tuples.column("order.amount").cast(pa.int64())], ["key", "count"])

    amounts = [*range(1, 101)]
    publish(connection, topic, 2, [orjson.dumps({"country": "Chad", "order": {"amount": n}}) for n in amounts])
    run = settings("SHUFFLE", work=add_amounts, work_columns=("order.amount",))
    drain(run)
    assert count_by_key(run) == {"Chad": sum(amounts)}


def test_a_drained_run_goes_on_from_its_checkpoint(settings, drain, connection, topic):
    run = settings("PARTIAL_KEY")
    publish(connection, topic, 2, countries(skewed(1_000, 1)))
    drain(run)
    publish(connection, topic, 2, countries(skewed(1_000, 2)))
    _, reports = drain(run)
    assert reports[-1].totals.tuples == 2_000
    assert count_by_key(run) == Counter(skewed(1_000, 1) + skewed(1_000, 2))


@pytest.mark.nightly(group="groupings")
def test_an_empty_topic_is_drained_at_once(settings, drain):
    _, reports = drain(settings("KEY"))
    assert reports[-1].totals.tuples == 0


def views(n):
    return orjson.dumps({"lang": "en", "page": "p", "n": n, "m": 1})


@pytest.mark.ci
def test_counts_that_no_sum_can_hold(settings, drain, connection, topic):
    nonsense = [2**63 - 1, 2**63 - 1, -(2**63), -7, 10**18, 10**12 + 1]
    counts = [5, *nonsense, 3, 10**12, 0]
    # All in one window, in several batches.
    publish(connection, topic, 2, list(map(views, counts)), ms=[START] * len(counts))
    run = settings("KEY", source_type="WIKIPEDIA_PAGEVIEWS_BY_LANG", max_tuples=2, time="event", run_time=600.0)
    _, reports = drain(run)
    topics = list_result_topics(run)
    assert by_key(final_counts(connection, topics["aggregator"])) == {"en": 10**12 + 8}
    assert reports[-1].totals.rejected == len(nonsense)
    reasons = {value["reason"] for _, value in records(connection, topics["rejected"])}
    assert reasons == {f"the count is {n}, not 0 to {10**12}" for n in nonsense}
