"""Whatever the stream, the batches, the grouping and the lifetime: what leaves is what a plain dictionary says."""

from collections import Counter, defaultdict

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.apps.keyed.driver import Driver, Tally
from unskew.apps.keyed import buckets
from unskew.apps.keyed.program import Period, Program
from unskew.grouping.registry import KEEPING, STANDALONE

WINDOW, TTL, EVERY = 40, 60, 25
FAR = 1 << 40

tuples = st.lists(
    st.tuples(st.integers(0, 12), st.integers(-5, 5), st.integers(0, 60)), max_size=30
)  # key, value, how much older than the batch
streams = st.lists(st.tuples(st.integers(1, 30), tuples, tuples), min_size=1, max_size=12)  # pause, two sources


groupings = st.sampled_from(STANDALONE)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Buckets of a few keys, so that they split and merge."""
    monkeypatch.setattr(buckets, "KEYS", 3)
    monkeypatch.setattr(buckets, "_SHRINK", 2)


def rows(chosen, batch_ms, *, event):
    columns = {
        "key": pa.array([f"k{key}" for key, _, _ in chosen], pa.string()),
        "value": pa.array([value for _, value, _ in chosen], pa.int64()),
    }
    if event:
        columns["time"] = pa.array([max(0, batch_ms - age) for _, _, age in chosen], pa.timestamp("ms", "UTC"))
    return pa.RecordBatch.from_pydict(columns)


def play(driver, batches, *, event):
    """Run the batches; the oracle's view of them: (batch's time, watermark before and at it, its tuples)."""
    seen, watermark, before, ms, newest = [], 0, 0, 1000, 0
    for pause, *both in batches:
        ms += pause
        before, watermark = watermark, max(watermark, newest - 10) if event else ms
        driver.batch([rows(chosen, ms, event=event) for chosen in both], ms, watermark)
        arrived = [(f"k{k}", v, max(0, ms - age) if event else ms) for chosen in both for k, v, age in chosen]
        seen.append((ms, before, watermark, arrived))
        newest = max([newest, *(time for _, _, time in arrived)])
    driver.batch([rows([], FAR, event=event)] * 2, FAR, FAR)
    return seen


@pytest.mark.parametrize("every", [None, Period(ms=EVERY), Period(batches=3)])
@given(grouping=groupings, batches=streams, seed=st.integers(0, 9), workers=st.integers(1, 4), event=st.booleans())
def test_windows(every, grouping, batches, seed, workers, event):
    split = grouping not in KEEPING
    program = Program(
        Tally(), pa.string(), workers, split, homes=2 if workers > 1 else 1, event=event, window_ms=WINDOW,
        merge_every=every if split else None, counted_ms=WINDOW,
    )  # fmt: skip
    driver = Driver(program, grouping, sources=2, seed=seed)
    truth, late_before = defaultdict(list), 0
    for _, late_before, _, arrived in play(driver, batches, event=event):
        for key, value, time in arrived:
            window = time // WINDOW * WINDOW
            if not event or window + WINDOW > late_before:
                truth[window, key].append(value)
    expected = sorted((window, key, len(values), sum(values)) for (window, key), values in truth.items())
    assert driver.finished() == expected
    counted = Counter()
    for window, key, n, count in driver.counts:
        assert n == count
        counted[window, key] += n
    assert counted == {place: len(values) for place, values in truth.items()}
    assert all(not any(place[2] >= 0 for place in store.blobs) for store in [*driver.workers, *driver.homes])
    assert driver.settled() == {(window, key): (n, total) for window, key, n, total in expected}


@given(
    grouping=groupings, batches=streams, seed=st.integers(0, 9), workers=st.integers(1, 4), event=st.booleans(),
    by_time=st.booleans(),
)  # fmt: skip
def test_states_that_expire(grouping, batches, seed, workers, event, by_time):
    split = grouping not in KEEPING
    every = Period(ms=EVERY) if by_time else Period(batches=2)
    program = Program(
        Tally(), pa.string(), workers, split, homes=2 if workers > 1 else 1, event=event, ttl_ms=TTL,
        merge_every=every if split else None,
    )  # fmt: skip
    driver = Driver(program, grouping, sources=2, seed=seed)
    driver.number = 0 if by_time else 1 - len(batches) % 2  # the last batch, which is empty, is one of those that meet
    first = driver.number
    seen = play(driver, batches, event=event)
    truth, open_, last = [], defaultdict(list), {}

    def leave(at):
        for key in [key for key in open_ if last[key] + TTL <= at]:
            values = open_.pop(key)
            truth.append((0, key, len(values), sum(values)))

    before_ms = seen[0][0] if seen else 0
    for number, (ms, before, watermark, arrived) in enumerate(seen, first):
        if not split and not event:
            leave(ms)
        for key, value, time in arrived:
            if not event or time >= before:
                open_[key].append(value)
                last[key] = max(last.get(key, 0), time) if len(open_[key]) > 1 else time
        if not split or every.over(before_ms, ms, number):
            leave(watermark)
        before_ms = ms
    leave(FAR)
    assert driver.finished() == sorted(truth)
    assert all(not any(place[2] >= 0 for place in store.blobs) for store in [*driver.workers, *driver.homes])
