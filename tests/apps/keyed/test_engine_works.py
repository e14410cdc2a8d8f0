"""Sessions and Distinct on the engine: whatever the stream, the batches and the grouping, each result is told once."""

from collections import Counter, defaultdict

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.apps.keyed.driver import Driver
from tests.apps.keyed.test_engine import EVERY, WINDOW, _small, groupings, play, streams  # noqa: F401  fixture
from unskew.apps.keyed.program import Period, Program
from unskew.grouping.registry import KEEPING
from unskew.works import Distinct, Sessions

GAP = 20


def sessions(arrived):
    """(key, start, last, count) of each session of (key, time)s."""
    times = defaultdict(list)
    for key, time in arrived:
        times[key].append(time)
    for key, of in times.items():
        of.sort()
        cuts = [i for i in range(1, len(of)) if of[i] - of[i - 1] > GAP]
        for start, stop in zip([0, *cuts], [*cuts, len(of)], strict=True):
            yield key, of[start], of[stop - 1], stop - start


@given(
    grouping=groupings, batches=streams, seed=st.integers(0, 9), workers=st.integers(1, 4), event=st.booleans(),
    by_time=st.booleans(),
)  # fmt: skip
def test_sessions(grouping, batches, seed, workers, event, by_time):
    split, work = grouping not in KEEPING, Sessions(gap=GAP / 1000)
    every = Period(ms=EVERY) if by_time else Period(batches=2)
    program = Program(
        work, pa.string(), workers, split, homes=2 if workers > 1 else 1, event=event, ttl_ms=work.ttl_ms,
        merge_every=every if split else None,
    )  # fmt: skip
    driver = Driver(program, grouping, sources=2, seed=seed)
    driver.number = 0 if by_time else 1 - len(batches) % 2  # the last batch is one of those in which states meet
    seen = play(driver, batches, event=event)
    taken = [
        (key, time) for _, before, _, arrived in seen for key, _, time in arrived if not event or time >= before
    ]  # fmt: skip
    assert Counter(driver.results) == Counter((0, *each) for each in sessions(taken))
    assert all(not any(place[2] >= 0 for place in store.blobs) for store in [*driver.workers, *driver.homes])


@pytest.mark.parametrize("every", [None, Period(batches=3)])
@given(grouping=groupings, batches=streams, seed=st.integers(0, 9), workers=st.integers(1, 4), event=st.booleans())
def test_distinct(every, grouping, batches, seed, workers, event):
    split = grouping not in KEEPING
    program = Program(
        Distinct("value", "int64"), pa.string(), workers, split, homes=2 if workers > 1 else 1, event=event,
        window_ms=WINDOW, merge_every=every if split else None,
    )  # fmt: skip
    driver = Driver(program, grouping, sources=2, seed=seed)
    times = defaultdict(list)
    for _, late_before, _, arrived in play(driver, batches, event=event):
        for key, value, time in arrived:
            window = time // WINDOW * WINDOW
            if not event or window + WINDOW > late_before:
                times[window, key, value].append(time)
    assert sorted(each[:3] for each in driver.results) == sorted(times)
    for *place, time in driver.results:
        assert time in times[tuple(place)]
        assert (every is not None or not split) or time == min(times[tuple(place)])
