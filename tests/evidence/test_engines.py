"""The programs of other engines, each on a few thousand messages: what they write is what a plain count finds."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from evidence.engines.contestants import CONTESTANTS, Ours
from evidence.engines.jobs import (
    JOBS,
    STATISTICS,
    Bid,
    Found,
    Truth,
    channels,
    hot_items,
    last_bids,
    sessions_of,
    truth_of,
)
from evidence.engines.latency import Result, Tap, in_the_end, latencies
from evidence.engines.ours.channels import Channels
from evidence.engines.recovery import lateness
from unskew.apps.operators.interface import concat_batches
from unskew.operators import Now
from unskew.producers.datasets.registry import create_dataset


@pytest.mark.nightly(group="evidence")
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.takes(260)
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "job", ["count", "bids", "distinct", "work", "shuffle", "last-bids", "hot-items", "channels", "join"]
)
def test_every_engine_counts_right(job):
    """Each program, and each of its branches, once: an engine's start takes long."""
    split = ["BOUNDED_LOAD"]
    ours = {"work": split, "shuffle": [*split, "KEY", "MIXED"], "last-bids": split, "channels": split}
    ours["join"] = ["KEY", "balanced_join"]
    others = [name for name, each in CONTESTANTS.items() if not isinstance(each, Ours) and each.does(JOBS[job])]
    if job == "count":  # the others count after the work, too, by the same program
        others = ["Flink", "Pathway"]
    engines = [*ours.get(job, []), *others]
    # Windows of 10 s, at 10,000 events/s; and a hot key with some right rows.
    records = {"hot-items": "100000", "join": "22000"}.get(job, "5000")
    of = ["--jobs", job, "--engines", *engines, "--records", records, "--repeats", "1"]
    command = [sys.executable, "-m", "evidence.engines", *of]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    assert all(any(row.startswith(f"| {name} ") for row in rows) for name in engines)
    assert not [line for line in done.stdout.splitlines() if "wrong" in line or line.startswith("loads:")], done.stdout
    if "can't be had" in done.stdout:
        pytest.skip(done.stdout[done.stdout.index("can't be had") :])


def test_sessions_are_those_of_a_plain_loop():
    random = np.random.default_rng(5)
    keys, times = random.integers(0, 7, 400), random.integers(0, 5_000, 400)
    starts = sessions_of(keys, times, 30)
    last, start = {}, {}
    for number in sorted(range(400), key=times.__getitem__):
        key, at = keys[number], times[number]
        if key not in last or at - last[key] > 30:
            start[key] = at
        last[key] = at
        assert starts[number] == start[key]
    assert len({*zip(keys, starts, strict=True)}) > 7


def test_what_is_wrong_is_found():
    truth = Truth({(0, "tr"): 3, (0, "de"): 1}, 4)
    found = Found()
    found.add([((0, "tr"), 2), ((0, "de"), 1)], 10)
    assert found.wrong(truth) == "3 of 4 messages; 1 of 2 counts are wrong"
    found.add([((0, "tr"), 3)], 20)
    assert not found.wrong(truth)
    assert (found.total, found.last_ms) == (4, 20)
    found.add([((5000, "tr"), 1)], 30)
    assert found.wrong(truth) == "5 of 4 messages; 1 of 3 counts are wrong"


def test_a_count_that_is_taken_back_counts_no_longer():
    truth = Truth({(0, "tr"): 3}, 3)
    found = Found()
    found.add([((5, "tr"), 2)], 10)
    assert not found.all_of(truth)
    found.add([((0, "tr"), 3)], 20)
    assert not found.all_of(truth)
    found.add([((5, "tr"), -2)], 20)
    assert found.all_of(truth)
    assert found.total == 3
    found.add([((0, "tr"), -1)], 30)  # the later one came first
    assert not found.wrong(truth)


def test_of_distinct_keys_each_counts_once_but_all_messages_are_read():
    truth = truth_of(["tr", "de"], np.array([0, 1, 0, 0]), np.array([5_000, 5_001, 9_999, 10_000]), distinct=True)
    assert truth.counts == {(0, "tr"): 1, (0, "de"): 1}
    assert (truth.total, truth.messages) == (2, 4)


def bids_of(*bids):
    names = ["channel", "bidder", "auction", "price", "dateTime"]
    return [dict(zip(names, bid, strict=True)) for bid in bids]


def test_a_channels_statistics_have_each_id_once_a_rank():
    morning, night = "2015-07-15 00:00:00.000", "2015-07-15 23:59:59.999"
    bids = bids_of(
        ("Apple", 1, 70, 9_999, morning),
        ("Apple", 1, 71, 10_000, morning),
        ("Apple", 1, 70, 999_999, night),
        ("Apple", 2, 70, 1_000_000, night),
        ("Baidu", 1, 70, 1, morning),
        ("Apple", 1, 70, 1, "2015-07-16 00:00:00.000"),
    )
    truth = channels(bids)
    of = {key: [truth.counts.get((n, key), 0) for n in range(len(STATISTICS))] for _, key in truth.counts}
    assert of == {
        "2015-07-15 Apple": [4, 1, 2, 1, 2, 1, 1, 1, 2, 1, 2, 1],
        "2015-07-15 Baidu": [1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0],
        "2015-07-16 Apple": [1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0],
    }
    assert 0 not in truth.counts.values()
    assert (truth.total, truth.messages) == (sum(map(sum, of.values())), 6)


@pytest.mark.parametrize("parts", [1, 4])
def test_ours_has_a_channels_statistics_whatever_the_batches_and_workers(parts):
    random, n = np.random.default_rng(7), 500
    drawn = {"bidder": random.integers(1000, 1020, n), "auction": random.integers(1000, 1030, n)}
    drawn["price"] = random.choice([1, 9_999, 10_000, 999_999, 1_000_000], n)
    slots, minutes = random.integers(0, 3, n).astype(np.int32), np.sort(random.integers(0, 9, n))
    columns = {"slot": slots, **drawn, "minute": [f"00:0{minute}" for minute in minutes]}
    tuples, work, now = pa.RecordBatch.from_pydict(columns), Channels(), Now(0, 0)
    empty = pa.RecordBatch.from_arrays([pa.nulls(3, field.type) for field in work.state], schema=work.state)
    states, fragments = empty, []
    for part in range(parts):
        of = tuples.take(pa.array(np.flatnonzero(np.arange(n) % parts == part)))
        _, states = work.update(of, states, now)
        fragments.append(work.update(of, empty, now)[1])
    merged = work.merge(
        concat_batches(fragments, work.state), pa.array(np.tile(np.arange(3, dtype=np.int32), parts)), 3
    )
    assert merged.equals(states)
    bids = bids_of(*((f"c{row['slot']}", *(row[name] for name in drawn), "2015-07-15") for row in tuples.to_pylist()))
    truth = channels(bids).counts
    for row in work.result(states).to_pylist():
        of = {name: truth.get((number, f"2015-07-15 c{row['slot']}"), 0) for number, name in enumerate(STATISTICS)}
        last = minutes[slots == row["slot"]].max()
        assert row == {"slot": row["slot"], "minute": f"00:0{last}", **of}


def test_a_key_that_is_published_twice_is_wrong():
    truth = Truth({(0, "tr"): 1, (0, "de"): 1}, 2)
    found = Found(once=True)
    found.add(CONTESTANTS["Quix"].first_seen(b"tr", b""), 10)
    found.add(CONTESTANTS["KEY"].first_seen(b'-/de/{"id":"de"}', b'{"tags":{"key":"de"}}'), 20)
    assert found.all_of(truth)
    found.add([((0, "tr"), 1)], 30)
    assert not found.all_of(truth)
    assert found.wrong(truth) == "3 of 2 results; 1 of 2 counts are wrong"
    of_one = Found(once=True)
    of_one.add([((0, "tr"), 1), ((0, "tr"), 1)], 10)
    assert of_one.total == truth.total
    assert not of_one.all_of(truth)


def test_the_last_bid_is_that_of_the_greatest_time_of_its_bidder_and_auction():
    bids = [Bid(7, 1, 900), Bid(7, 2, 950), Bid(7, 1, 1_000), Bid(7, 1, 1_000), Bid(9, 1, 400), Bid(7, 1, 800)]
    truth = last_bids(bids)
    assert truth.counts == {(0, "1/7"): 1_000, (0, "2/7"): 950, (0, "1/9"): 400}
    assert (truth.total, truth.messages, truth.newest_ms) == (2_350, 6, 1_000)


def test_hot_items_are_those_of_each_window_by_itself():
    random = np.random.default_rng(7)
    bids = [Bid(*map(int, bid)) for bid in random.integers([1, 1, 20_000], [30, 9, 60_000], (300, 3))]
    expected = {}
    for start in range(0, 70_000, 2_000):
        auctions = [bid.auction for bid in bids if start <= bid.at_ms < start + 10_000]
        if auctions:
            n, hottest = max((auctions.count(auction), auction) for auction in auctions)
            expected[start, str(hottest)] = n
    assert hot_items(bids).counts == expected
    assert len(expected) == 24


def test_a_key_has_the_bid_that_was_written_last():
    truth = last_bids([Bid(7, 1, 1_436_918_400_001), Bid(9, 1, 1_436_918_400_000)])
    found, read = Found(query="q18"), CONTESTANTS["Quix"].reading(JOBS["last-bids"])
    of_spark = CONTESTANTS["groupBy"].reading(JOBS["last-bids"])
    found.add(read(None, b'{"auction":7,"bidder":1,"dateTime":"2015-07-15 00:00:00.000"}'), 10)
    found.add(read(None, b'{"event_type":2,"bid":{"auction":9,"bidder":1,"dateTime":"2015-07-15 00:00:00.000"}}'), 10)
    assert found.wrong(truth) == "1 of 2 results are wrong"
    found.add(of_spark(None, b'{"auction":7,"bidder":1,"dateTime":"2015-07-15T00:00:00.001Z"}'), 20)
    assert found.all_of(truth)
    found.add(read(None, b'{"auction":7,"bidder":1,"dateTime":"2015-07-15 00:00:00.000"}'), 30)
    assert not found.all_of(truth)


@pytest.fixture
def two_windows():
    """Two windows of a hot key and a rare one, and one after them."""
    names, code = ["tr", "de"], np.array([0, 1, 0, 0, 0, 1, 0])
    return truth_of(names, code, np.array([5_000, 6_000, 9_990, 7_000, 10_000, 14_999, 15_000])).between(5_000, 15_000)


def test_latency_is_that_of_the_first_record_with_the_final_count(two_windows):
    results = [
        Result(8_000, (5_000, "tr"), 2),
        Result(10_700, (5_000, "tr"), 3),  # the same again, which was read before
        Result(10_500, (5_000, "tr"), 3),
        Result(10_900, (5_000, "tr"), 3),
        Result(6_010, (5_000, "de"), 1),  # before the window's end
        Result(15_300, (10_000, "tr"), 1),
        Result(15_200, (10_000, "de"), 1),
        Result(20_000, (15_000, "tr"), 1),  # not measured
    ]
    assert not in_the_end(two_windows, results)
    after_end, after_last, hottest = latencies(two_windows, results)
    of = {place: (end, last) for place, end, last in zip(two_windows.counts, after_end, after_last, strict=True)}
    assert of == {
        (5_000, "tr"): (500, 510),
        (5_000, "de"): (-3_990, 10),
        (10_000, "tr"): (300, 5_300),
        (10_000, "de"): (200, 201),
    }
    assert [place for place, hot in zip(of, hottest, strict=True) if hot and place[0] == 5_000] == [(5_000, "tr")]
    assert hottest.sum() == 2  # one a window


def test_the_last_count_is_the_one_that_the_broker_appended_last(two_windows):
    right = [Result(9_000, place, n) for place, n in two_windows.counts.items()]
    assert not in_the_end(two_windows, [*right, Result(8_000, (5_000, "tr"), 2)])  # it was read later
    assert in_the_end(two_windows, [*right, Result(9_500, (5_000, "tr"), 4)]) == (
        "7 of 6 messages; 1 of 4 counts are wrong"
    )
    assert "1 of 4 counts" in in_the_end(two_windows, right[1:])
    assert "1 of 5 counts" in in_the_end(two_windows, [*right, Result(9_500, (5_000, "fr"), 1)])


def test_a_tap_changes_its_rate_within_a_block():
    tap, due = Tap(20.0), []
    block = next(create_dataset("COUNTRY_SKEW_R80", records=1_000).blocks())
    for stop, at in tap.pieces(block, 0):
        due.append((stop, at))
        if stop == 10:
            tap.rate = 400.0
    assert [stop for stop, _ in due][:11] == [*range(1, 11), 30]
    assert due[-1][0] == len(block)
    at = dict(due)
    assert at[10] == pytest.approx(9 / 20)
    assert at[30] == pytest.approx(10 / 20)
    assert at[1_000] == pytest.approx(10 / 20 + 49 * 20 / 400)


@pytest.fixture
def six_windows():
    """Six windows of 5 s, from 0, with a hot key and a rare one each."""
    at = np.arange(0, 30_000, 1_000)
    return truth_of(["tr", "de"], (at % 5_000 == 4_000).astype(np.int64), at)


def results_of(truth, delays):
    """The right counts of all windows, each so many ms after its window's end."""
    return [Result(place[0] + 5_000 + delays[place[0] // 5_000], place, n) for place, n in truth.counts.items()]


@pytest.mark.parametrize(
    ("delays", "found"),
    [
        # Not until the sixth window: the fifth was in time.
        ([900, 1_000, 9_000, 6_000, 1_400, 9_000], (1, (20_000 + 6_000 - 12_500) / 1000, 2)),
        ([900, 1_000, 1_500, 0, 0, 0], (1, 0, 0)),
        ([900, 1_000, 9_000, 9_000, 9_000, 9_000], (1, np.inf, 4)),
    ],
)
def test_results_are_late_until_a_window_is_in_time(six_windows, delays, found):
    assert lateness(six_windows, results_of(six_windows, delays), 10_000, 12_500) == found


def test_a_wrong_count_has_the_time_of_its_last_record(six_windows):
    results = results_of(six_windows, [900, 1_000, 1_000, 1_000, 1_000, 1_000])
    wrong = [Result(18_000, place, n + 1) for _, place, n in results if place == (10_000, "tr")]
    kept = [each for each in results if each.place != (10_000, "tr")]
    assert lateness(six_windows, kept + wrong, 10_000, 12_500) == (1, (18_000 - 12_500) / 1000, 1)
    assert lateness(six_windows, kept, 10_000, 12_500) == (1, np.inf, 1)
