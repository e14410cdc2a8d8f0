"""Workers and mergers on any stream, in any batches, with any grouping: their results are those of a dictionary.

So are the results of Sessions and Distinct, each published once.
"""

from collections import Counter, defaultdict
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.apps.stateful.driver import Driver, Tally
from tests.sessions import sessions
from unskew.apps.operators.interface import KeyedOperator
from unskew.apps.worker.stateful import store, table, worker
from unskew.apps.worker.stateful.config import KeyedOperatorConfig, MergePeriod, WorkerBatch, choose_merge_period
from unskew.grouping.registry import STANDALONE, STICKY
from unskew.operators import Distinct, PerKey, Sessions

WINDOW, TTL, EVERY = 40, 60, 25
FAR = 1 << 40

tuples = st.lists(
    st.tuples(st.integers(0, 12), st.integers(-5, 5), st.integers(0, 60)), max_size=30
)  # key, value, how much older than the batch
streams = st.lists(st.tuples(st.integers(1, 30), tuples, tuples), min_size=1, max_size=12)  # pause, two sources


groupings = st.sampled_from(STANDALONE)
slides = st.sampled_from([None, 20, 10])


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Buckets of a few keys, so that they split and merge, and few of them at a time."""
    monkeypatch.setattr(table, "_BYTES_AT_ONCE", 1500)
    monkeypatch.setattr(store, "KEYS", 3)
    monkeypatch.setattr(store, "_SHRINK", 2)


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


def open_windows(time, slide, closed):
    """The starts of the windows of a time that end after ``closed``."""
    latest = time // (slide or WINDOW) * (slide or WINDOW)
    return [start for start in range(latest, latest - WINDOW, -(slide or WINDOW)) if start + WINDOW > closed]


def make_driver(work, grouping, workers, seed, every, *, split=None, **lives):
    """A driver of two sources, with merges so often if keys are split: by default if the grouping splits them."""
    if split is None:
        split = grouping not in STICKY
    mergers, merge_every = 2 if workers > 1 else 1, every if split else None
    config = KeyedOperatorConfig(work, pa.string(), workers, split, mergers, merge_every=merge_every, **lives)
    return Driver(config, grouping, sources=2, seed=seed)


def keeps_nothing(driver):
    return not any(address[2] >= 0 for store in (*driver.workers, *driver.mergers) for address in store.blobs)


runs = {"grouping": groupings, "batches": streams, "seed": st.integers(0, 9)}
runs |= {"workers": st.integers(1, 4), "event": st.booleans()}


@pytest.mark.parametrize("every", [None, MergePeriod(ms=EVERY), MergePeriod(batches=3)])
@given(**runs, slide=slides)
def test_windows(every, grouping, batches, seed, workers, event, slide):
    lives = {"window_ms": WINDOW, "counted_ms": WINDOW, "slide_ms": slide}
    driver = make_driver(Tally(), grouping, workers, seed, every, event=event, **lives)
    truth, late_before = defaultdict(list), 0
    for _, late_before, _, arrived in play(driver, batches, event=event):
        for key, value, time in arrived:
            for window in open_windows(time, slide, late_before if event else 0):
                truth[window, key].append(value)
    expected = sorted((window, key, len(values), sum(values)) for (window, key), values in truth.items())
    assert driver.finished() == expected
    counted = Counter()
    for window, key, n, count in driver.counts:
        assert n == count
        counted[window, key] += n
    assert counted == {state: len(values) for state, values in truth.items()}
    assert keeps_nothing(driver)
    assert driver.settled() == {(window, key): (n, total) for window, key, n, total in expected}


@pytest.mark.parametrize("kind", [pa.string(), pa.int64(), pa.binary()])
@pytest.mark.parametrize("grouping", ["KEY", "SHUFFLE"])
def test_null_is_a_key_of_its_own(kind, grouping):
    """It has one state, from batch to batch, and a bucket as other keys."""
    work = PerKey(
        lambda key, tuples, state: ([], {"n": (state or {"n": 0})["n"] + len(tuples), "none": key is None}),
        state=pa.schema([("n", pa.int64()), ("none", pa.bool_())]),
        results=pa.schema([("n", pa.int64()), ("none", pa.bool_())]),
        merge=lambda states: {"n": sum(state["n"] for state in states), "none": states[0]["none"]},
        on_close=lambda state: [state],
    )
    split = grouping == "SHUFFLE"
    every = MergePeriod(batches=2) if split else None
    driver = Driver(KeyedOperatorConfig(work, kind, 3, split, 2, ttl_ms=TTL, merge_every=every), grouping)
    texts = [None if n % 3 == 0 else str(n % 20) for n in range(240)]
    keys = pa.array(texts, pa.string()).cast(kind)
    for number in range(6):
        part = keys.slice(40 * number, 40)
        driver.batch([pa.record_batch({"key": part.dictionary_encode() if number % 2 else part})], number)
    driver.move(FAR)
    assert Counter(driver.results) == Counter((0, key, n, key is None) for key, n in Counter(keys.to_pylist()).items())


@given(**runs, by_time=st.booleans())
def test_states_that_expire(grouping, batches, seed, workers, event, by_time):
    every = MergePeriod(ms=EVERY) if by_time else MergePeriod(batches=2)
    driver = make_driver(Tally(), grouping, workers, seed, every, event=event, ttl_ms=TTL)
    split = driver.config.split
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
        if not split or every.ends(before_ms, ms, number):
            leave(watermark)
        before_ms = ms
    leave(FAR)
    assert driver.finished() == sorted(truth)
    assert keeps_nothing(driver)


GAP = 20


@given(**runs, by_time=st.booleans())
def test_sessions(grouping, batches, seed, workers, event, by_time):
    work, every = Sessions(gap=GAP / 1000), MergePeriod(ms=EVERY) if by_time else MergePeriod(batches=2)
    driver = make_driver(work, grouping, workers, seed, every, event=event, ttl_ms=work.ttl_ms)
    driver.number = 0 if by_time else 1 - len(batches) % 2  # the last batch is one of those in which states meet
    seen = play(driver, batches, event=event)
    taken = [(key, time) for _, before, _, arrived in seen for key, _, time in arrived if not event or time >= before]
    assert Counter(driver.results) == Counter((0, *each) for each in sessions(taken, GAP))
    assert keeps_nothing(driver)


LATENESS = 15
in_order = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 12), st.integers(0, LATENESS)), max_size=60
)  # key, how much later than the one before, how much earlier it is said to have been
ordered = {"grouping": groupings, "chosen": in_order, "cuts": st.sets(st.integers(0, 60), max_size=8)}
ordered |= {"seed": st.integers(0, 9)}


def in_batches(chosen, cuts):
    """Tuples (key, time) of which none is late, cut into batches at these places: (watermark, batch)s."""
    ms, arriving = 1000, []
    for key, step, age in chosen:
        ms += step
        arriving.append((f"k{key}", ms - age))
    places = sorted({min(cut, len(arriving)) for cut in cuts} - {0})
    newest = 0
    for start, stop in zip([0, *places], [*places, len(arriving)], strict=True):
        yield max(0, newest - LATENESS), arriving[start:stop]
        newest = max([newest, *(time for _, time in arriving[start:stop])])
    yield max(0, newest - LATENESS), None


def driver_by_event(work, grouping, workers, seed, *, every=None, **life):
    """A driver by event time, with merges as they are by default."""
    split = grouping not in STICKY and workers > 1
    period = choose_merge_period(every if split else None, grouping, split=split, event=True, window_ms=None)
    return make_driver(work, grouping, workers, seed, period, split=split, event=True, **life)


def feed(driver, watermark, arrived):
    if arrived is None:
        driver.move(watermark)
        return
    times = pa.array([time for _, time in arrived], pa.timestamp("ms", "UTC"))
    columns = [pa.array([key for key, _ in arrived], pa.string()), pa.array([1] * len(arrived), pa.int64()), times]
    batch = pa.RecordBatch.from_arrays(columns, ["key", "value", "time"])
    half = len(arrived) // 2
    driver.batch([batch.slice(0, half), batch.slice(half)], 5, watermark)


@given(**ordered, workers=st.integers(1, 4), ttl=st.sampled_from([GAP + 1, 5 * GAP]))
def test_a_session_is_told_in_the_batch_in_which_the_watermark_passes_its_end(
    grouping, chosen, cuts, seed, workers, ttl
):
    work = Sessions(gap=GAP / 1000)
    prompt = driver_by_event(work, grouping, workers, seed, ttl_ms=ttl)
    patient = driver_by_event(work, grouping, workers, seed, every="99 batches", ttl_ms=ttl)
    taken = []
    for watermark, arrived in in_batches(chosen, cuts):
        feed(prompt, watermark, arrived)
        feed(patient, watermark, arrived)
        taken += arrived or []
        over = [(0, *each) for each in sessions(taken, GAP) if each[2] + GAP < watermark]
        assert Counter(prompt.results) == Counter(over)
    assert Counter(patient.results) == Counter(prompt.results)


@given(**ordered, workers=st.integers(2, 4))
def test_by_event_time_split_keys_tell_what_whole_ones_tell_in_each_batch(grouping, chosen, cuts, seed, workers):
    split, whole = (driver_by_event(Tally(), name, workers, seed, ttl_ms=TTL) for name in (grouping, "KEY"))
    for watermark, arrived in in_batches(chosen, cuts):
        for driver in (split, whole):
            feed(driver, watermark, arrived)
        assert sorted(split.results) == sorted(whole.results)


@given(**runs, slide=slides)
def test_sessions_in_windows(grouping, batches, seed, workers, event, slide):
    """A session of a window isn't over before the window is: a tuple that is late for others may lengthen it."""
    lives = {"window_ms": WINDOW, "slide_ms": slide}
    driver = make_driver(Sessions(gap=GAP / 2000), grouping, workers, seed, MergePeriod(2), event=event, **lives)
    taken = defaultdict(list)
    for _, late_before, _, arrived in play(driver, batches, event=event):
        for key, _, time in arrived:
            for window in open_windows(time, slide, late_before if event else 0):
                taken[window].append((key, time))
    expected = ((window, *each) for window, of in taken.items() for each in sessions(of, GAP // 2))
    assert Counter(driver.results) == Counter(expected)


@pytest.mark.parametrize("every", [None, MergePeriod(batches=3)])
@given(**runs, slide=slides)
def test_distinct(every, grouping, batches, seed, workers, event, slide):
    lives = {"window_ms": WINDOW, "slide_ms": slide}
    driver = make_driver(Distinct("value", "int64"), grouping, workers, seed, every, event=event, **lives)
    times = defaultdict(list)
    for _, late_before, _, arrived in play(driver, batches, event=event):
        for key, value, time in arrived:
            for window in open_windows(time, slide, late_before if event else 0):
                times[window, key, value].append(time)
    assert sorted(each[:3] for each in driver.results) == sorted(times)
    for *result, time in driver.results:
        assert time in times[tuple(result)]
        assert (every is not None or grouping in STICKY) or time == min(times[tuple(result)])


@pytest.mark.parametrize("grouping", ["KEY", "D_CHOICES"])
@pytest.mark.parametrize("every", [None, MergePeriod(batches=2)])
def test_a_clock_that_is_set_back_opens_no_closed_window(grouping, every):
    driver = make_driver(Tally(), grouping, 3, 0, every, window_ms=WINDOW)
    times = 90, 130, 95, 60, 125, 170, 10  # ms; from 130 on the window that began at 80 is closed, from 170 on the next
    for ms in times:
        driver.batch([rows([(key, 1, 0) for key in range(5)], ms, event=False)] * 2, ms)
    driver.batch([rows([], FAR, event=False)] * 2, FAR, FAR)
    expected = {80: 1, 120: 4, 160: 2}  # batches
    assert driver.finished() == sorted(
        (window, f"k{key}", 2 * n, 2 * n) for window, n in expected.items() for key in range(5)
    )


class Values(KeyedOperator):
    """The values of the only key, in the order in which they came."""

    columns = ("value",)
    state = results = pa.schema([("values", pa.list_(pa.int64()))])

    def update(self, tuples, states, now):
        [before] = states.column(0).to_pylist()
        after = [(before or []) + tuples.column("value").to_pylist()]
        return None, pa.record_batch([pa.array(after, pa.list_(pa.int64()))], schema=self.state)

    def on_close(self, states, now):
        return pa.record_batch([pa.array([0], pa.int32()), *states.columns], ["slot", "values"])


def test_a_tuple_updates_those_of_its_sliding_windows_that_are_open():
    """At a watermark of 100 the windows up to 60 are closed: 60 and 69 are late, and 99 is for one of its windows."""
    reports = {}
    collector = SimpleNamespace(send=lambda batch, worker, report: reports.update({batch: report}))
    config = KeyedOperatorConfig(
        *(Values(), pa.string(), 1, False), event=True, window_ms=40, slide_ms=10, counted_ms=40, reports=collector
    )
    driver = Driver(config, "KEY")
    driver.batch([rows([], 100, event=True)], 100, 100)
    ages = 1, 40, 30, 31, 29, -12  # times 99, 60, 70, 69, 71, 112
    driver.batch([rows([(0, value, age) for value, age in enumerate(ages)], 100, event=True)], 100, 109)
    assert driver.results == driver.counts == []
    assert config.now(WorkerBatch(1, 100, 109)).watermark_ms == 70  # tuples of that window may still come
    driver.move(110)
    assert driver.results == [(70, "k0", [0, 2, 4])]
    driver.move(FAR)
    later = {80: [0, 5], 90: [0, 5], 100: [5], 110: [5]}
    assert driver.results == [(70, "k0", [0, 2, 4]), *((window, "k0", values) for window, values in later.items())]
    assert driver.counts == [(window, key, len(values), len(values)) for window, key, values in driver.results]
    assert (reports[1].tuples, reports[1].windows, reports[1].late) == (6, {6: 2, 7: 2, 9: 1, 11: 1}, 0)


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
@pytest.mark.parametrize("large", [False, True])
def test_texts_of_a_batch_may_be_more_than_an_array_of_their_type_has(monkeypatch, kind, large):
    """The bound is 2 GiB, here some bytes. A batch that has been planned is never cut anew."""
    if large:
        monkeypatch.setattr(worker, "_MOST_BYTES", 60)
    kinds = set()

    class Joined(PerKey):
        def update(self, tuples, states, now):
            kinds.add(tuples.column("value").type)
            return super().update(tuples, states, now)

    def append(_, rows, state):
        texts = (state["texts"] if state else []) + [row["value"] for row in rows]
        return [{"texts": texts}], {"texts": texts}

    texts = pa.schema([("texts", pa.list_(kind))])
    work = Joined(append, state=texts, results=texts, columns=("value",))
    driver = Driver(KeyedOperatorConfig(work, pa.string(), 1, split=False, ttl_ms=TTL), "KEY", sources=2)
    values = pa.array([f"text {i}" for i in range(6)]).cast(kind)
    keys = pa.array(["a", "b", None] * 2)
    driver.batch([pa.record_batch([keys, values], ["key", "value"])] * 2, 5)
    of = values.to_pylist()
    assert driver.results == [(0, key, [of[i], of[i + 3]] * 2) for i, key in enumerate(["a", "b", None])]
    assert kinds == {worker._LARGE[kind] if large else kind}


@pytest.mark.parametrize("lives", [{"ttl_ms": TTL}, {"window_ms": WINDOW}])
def test_a_streams_watermark_begins_at_1970(lives):
    """A backfill, which has no watermark, takes older tuples (``test_static``)."""
    driver = Driver(KeyedOperatorConfig(Tally(), pa.string(), 1, split=False, event=True, **lives), "KEY")
    times = pa.array([-3 * WINDOW, 5], pa.timestamp("ms", "UTC"))
    driver.batch(
        [pa.record_batch([pa.array(["before", "after"]), pa.array([7, 8]), times], ["key", "value", "time"])], 10, 0
    )
    driver.move(FAR)
    assert [key for _, key, _, _ in driver.finished()] == ["after"]


@pytest.mark.parametrize("split", [False, True])
def test_large_states_are_few_at_a_time(monkeypatch, split):
    """A state may have 32 MiB, and an Arrow array 2 GiB. Here a state has a kilobyte, and 4 KiB are fetched at once."""
    monkeypatch.setattr(table, "_BYTES_AT_ONCE", 4 << 10)
    monkeypatch.setattr(store, "BYTES", 1 << 10)
    fetched, fetch = [], store.BucketStore.fetch

    def noted(self, *given):
        found = fetch(self, *given)
        fetched.append(found[0].nbytes)
        return found

    monkeypatch.setattr(store.BucketStore, "fetch", noted)
    texts = pa.schema([("text", pa.string())])
    work = PerKey(
        lambda key, rows, state: ([], {"text": f"{key} {len(rows)} " * 100}),
        state=texts,
        results=texts,
        merge=lambda states: states[-1],
        on_close=lambda state: [state],
    )
    workers = 2 if split else 1
    config = KeyedOperatorConfig(
        work, pa.string(), workers, split, workers, ttl_ms=TTL, merge_every=MergePeriod(1) if split else None
    )
    driver = Driver(config, "SHUFFLE" if split else "KEY")
    keys = [f"key {i:03}" for i in range(200)]
    for batch_ms in (1, 2, 3):
        driver.batch([pa.record_batch([pa.array(keys)], ["key"])], batch_ms)
    driver.move(FAR)
    assert sorted(driver.results) == [(0, key, f"{key} 1 " * 100) for key in keys]
    assert max(fetched) <= 8 << 10
