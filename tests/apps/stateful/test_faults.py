"""What goes wrong with states is one line that names the key, the value, and what is valid."""

import inspect
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest

from tests.apps.local_settings import settings
from tests.apps.stateful.driver import Driver, Hoard, Tally
from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.apps.cli.option_groups import OperatorOptions, load_operator
from unskew.apps.driver.dataflow import Dataflow
from unskew.apps.driver.termination import describe_cause
from unskew.apps.operators.errors import StateFault
from unskew.apps.worker.stateful.config import (
    KeyedOperatorConfig,
    MergePeriod,
    parse_lifetime,
    parse_window_slide,
    splits_keys,
)
from unskew.errors import UsageError
from unskew.grouping.registry import GROUPINGS, STANDALONE, STICKY
from unskew.operators import DistinctCount

KEYS = [f"k{i}" for i in range(40)]


def run(work, grouping="KEY", values=None):
    config = KeyedOperatorConfig(work, pa.string(), 3, grouping != "KEY", window_ms=1000)
    batch = pa.RecordBatch.from_pydict({"key": KEYS, "value": pa.array(values or list(range(40)), pa.int64())})
    driver = Driver(config, grouping)
    driver.batch([batch], 500)
    driver.batch([batch.slice(0, 0)], 5_000)
    return driver


class Picky(Tally):
    method = "update"

    def _check(self, values):
        if any(value == 17 for value in values):
            raise KeyError("no\n17")

    def update(self, tuples, states, now):
        if self.method == "update":
            self._check(tuples.column("value").to_pylist())
        return super().update(tuples, states, now)

    def merge(self, states, slots, keys):
        if self.method == "merge":
            self._check(states.column("total").to_pylist())
        return super().merge(states, slots, keys)

    def on_merge(self, before, after, now):
        if self.method == "on_merge":
            self._check(after.column("total").to_pylist())
        return super().on_merge(before, after, now)

    def on_close(self, states, now):
        if self.method == "on_close":
            self._check(states.column("total").to_pylist())
        return super().on_close(states, now)


def test_the_error_of_a_work_names_the_key(subtests):
    line = inspect.getsourcelines(Picky._check)[1] + 2
    message = f"the operator Picky failed on key 'k17' ({__file__}:{line} in _check: KeyError: 'no\\n17')"
    for method, grouping in (
        *(("update", "KEY"), ("update", "SHUFFLE"), ("merge", "SHUFFLE")),
        *(("on_merge", "KEY"), ("on_close", "KEY")),
    ):
        work = Picky()
        work.method = method
        with subtests.test(method=method, grouping=grouping):
            with pytest.raises(StateFault) as fault:
                run(work, grouping)
            assert str(fault.value) == message
    traceback = f"Traceback…\nunskew.apps.operators.errors.StateFault: {message}\n"
    wrapped = type("Wrapped", (), {"__str__": lambda _: traceback})
    assert describe_cause(wrapped()) == f"{message}; nothing is lost: mend it and start again"


class Wrong(Tally):
    def __init__(self, change):
        super().__init__()
        self.change = change

    def update(self, tuples, states, now):
        results, after = super().update(tuples, states, now)
        return self.change(results, after)


NAMES = ["slot", "kind", "n", "total"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r, s: (r, s.rename_columns(["n", "sum"])), "states have the columns n, sum; valid: n, total"),
        (lambda r, s: (r, s.slice(1)), "rows for"),
        (
            lambda r, s: (r, s.set_column(1, "total", pa.array(["x"] * s.num_rows))),
            "states have the column 'total' as string; valid: int64",
        ),
        (lambda r, s: (r, s.to_pylist()), "states are list; valid: RecordBatch"),
        (lambda r, s: (pa.record_batch([pa.array([99]), pa.array([""]), *s.slice(0, 1).columns], NAMES), s), "slots"),
        (lambda r, s: (s, s), "results have the columns n, total; valid: slot, kind, n, total"),
    ],
)
def test_what_a_work_gives_must_fit_its_schemas(change, message):
    with pytest.raises(StateFault, match="the operator Wrong failed on key ") as fault:
        run(Wrong(change))
    assert message in str(fault.value)
    assert "\n" not in str(fault.value)


def test_a_state_may_be_large_but_not_that_large():
    large = [100] * 40
    large[9] = 5 << 20
    assert len(run(Hoard(), values=large).finished()) == 40
    large[9] = 50 << 20
    with pytest.raises(StateFault, match=r"the state of key 'k9' has 52,\d\d\d,\d\d\d bytes; valid: 33,554,432 at"):
        run(Hoard(), values=large)


def test_a_work_without_a_merge_needs_a_grouping_that_keeps_keys():
    class Alone(Tally):
        merge = Tally.__base__.merge

    assert STICKY == ("KEY",)
    with pytest.raises(
        UsageError, match=r"D_CHOICES puts a key on several workers, and Alone has no merge; valid: KEY"
    ):
        splits_keys(Alone(), "D_CHOICES", 4)
    assert not splits_keys(Alone(), "KEY", 4)
    assert not splits_keys(Alone(), "SHUFFLE", 1)
    assert splits_keys(Tally(), "SHUFFLE", 2)


@pytest.mark.parametrize("name", STANDALONE)
def test_a_grouping_keeps_keys_or_doesnt(name):
    """Two sources, each with a router of its own, and a hot key."""
    rng, n = np.random.default_rng(1), 60_000
    keys = [str(0 if hot else cold) for hot, cold in zip(rng.random(n) < 0.5, rng.integers(1, 300, n), strict=True)]
    routed = [
        GROUPINGS[name](5).at_source(source).route(keys[source::2], times=np.arange(n // 2) * 10) for source in (0, 1)
    ]
    replicas = {(key, int(w)) for source in (0, 1) for key, w in zip(keys[source::2], routed[source], strict=True)}
    assert (len(replicas) == len(set(keys))) == GROUPINGS[name].is_sticky


def test_lifetimes_and_periods():
    work = Tally()
    assert parse_lifetime(work, 15.0, None) == (15_000, None)
    assert parse_lifetime(work, 15.0, 2.0) == (None, 2_000)
    with pytest.raises(UsageError, match="Tally's states would live for ever: give ttl or window"):
        parse_lifetime(work, None, None)
    work.ttl_ms = 30_000
    assert parse_lifetime(work, None, None) == (None, 30_000)
    with pytest.raises(UsageError, match=r"ttl is 2\.0; valid for Tally: at least 30 s"):
        parse_lifetime(work, None, 2.0)
    assert parse_lifetime(work, timedelta(minutes=1), None) == (60_000, None)
    assert parse_lifetime(work, None, "1 hour 30 minutes") == (None, 5_400_000)
    assert parse_window_slide(work, None, None) is parse_window_slide(work, "1 minute", 60_000) is None
    assert parse_window_slide(work, "1s", 60_000) == 1000
    with pytest.raises(UsageError, match="window_slide is '7s'; valid for a window of 60 s: its length divided"):
        parse_window_slide(work, "7s", 60_000, "window_slide")
    assert [MergePeriod.of(each).ms for each in (timedelta(seconds=2), 2.5, "5 minutes", "30s")] == [
        2000,
        2500,
        300_000,
        30_000,
    ]
    assert [MergePeriod.of(each).batches for each in ("1 batch", "5 batches", "7b")] == [1, 5, 7]
    for given in ("0", "-1s", "1.5b", "0 batches", "", 0, timedelta()):
        with pytest.raises(UsageError, match=r"merge_every is .*; valid: .* or batches \('5 batches'\)"):
            MergePeriod.of(given)


def test_works_by_name():
    assert load_operator("unskew.operators:Sessions", {"gap": "7"}).gap_ms == 7_000
    assert load_operator("tests.apps.stateful.test_faults:run", {}) is run
    for path, options, message in (
        ("tests.apps.stateful.test_faults:run", {"gap": "7"}, "has no option 'gap'; valid: none"),
        (None, {"gap": "7"}, "there is no --work"),
    ):
        with pytest.raises(UsageError, match=message):
            load_operator(path, options)


class Remembering(Tally):
    """A work with a parameter whose name a run's option has, too."""

    def __init__(self, column: str = "offset", ttl: float = 1.0) -> None:
        super().__init__(column)
        self.ttl_ms = round(1000 * ttl)


def test_the_options_of_a_run_with_a_work():
    """They stand beside the work's own parameters. A name of both is refused, so that neither hides the other."""
    path = "tests.apps.stateful.test_faults:Remembering"
    given = ["column=user.age", "merge_every=2 batches", "errors=fail"]
    found = OperatorOptions(path, given).settings()
    assert found.pop("work").columns == ("user.age",)
    assert found == {"merge_every": "2 batches", "work_errors": "fail"}
    of_function = OperatorOptions("tests.apps.stateful.test_faults:run", ["columns=value, offset"]).settings()
    assert of_function == {"work": run, "work_columns": ("value", "offset")}
    for given, message in (
        ("ttl=7", "--work-option ttl is an option of the run, and a parameter of tests"),
        ("colum=a", "has no option 'colum'; did you mean column or columns. valid: column, ttl, columns, errors"),
    ):
        with pytest.raises(UsageError, match=message):
            OperatorOptions(path, [given]).settings()
    with pytest.raises(UsageError, match="--work-option ttl is 'long'; valid: a number"):
        OperatorOptions("tests.apps.stateful.test_faults:Tally", ["ttl=long"]).settings()


def test_states_made_with_other_parameters_are_another_runs():
    def bound_to(work):
        return Dataflow.of(settings(work=work)).identity

    first, second = (bound_to(DistinctCount("offset", log2_registers=bits)) for bits in (10, 12))
    assert {name for name in first if first[name] != second[name]} == {"parameters"}


def test_states_of_windows_with_another_slide_are_another_runs(tmp_path):
    def record(slide):
        slide_ms = parse_window_slide(Tally(), slide, 15_000)
        return KeyedOperatorConfig(Tally(), pa.string(), 2, False, window_ms=15_000, slide_ms=slide_ms).identity

    assert record("15 seconds") == record(None)
    assert record(None)["states"] == "window 15000 ms"  # as versions without slides have it
    Checkpoint(str(tmp_path)).claim(record(5.0))
    Checkpoint(str(tmp_path)).claim(record("5 seconds"))
    for slide in (None, 3.0):
        with pytest.raises(UsageError, match="belongs to a run with states 'window 15000 ms every 5000 ms', this one"):
            Checkpoint(str(tmp_path)).check(record(slide))
