"""`unskew check-work`: it passes the works that come with it, and finds what is wrong with others."""

import itertools
from inspect import isabstract, signature

import numpy as np
import pyarrow as pa
import pytest

from tests.commands import unskew
from unskew import operators
from unskew.apps.operators.conformance import check_operator, make_case
from unskew.apps.operators.interface import has_state
from unskew.apps.operators.loader import import_operator
from unskew.operators import KeyedOperator, MergeableOperator, PerKey

COUNT = pa.schema([("count", pa.int64())])
JOIN = {"within": "0.02", "after": "0.01", "side": "right", "left": "a int64", "equal": "b string", "how": "full"}
#: Options that make an operator's states small, so that random tuples exceed them.
OPTIONS = {
    "Distinct": {"kind": "int64"},
    "DistinctCount": {"log2_registers": "4"},
    "Histogram": {"bins": "3"},
    "KllQuantiles": {"k": "8"},
    "Sessions": {"gap": "0.01"},
    "TopK": {"k": "1", "counters": "3"},
    "IntervalJoin": JOIN,
}
#: Every operator that comes with it, but the one that calls a function of the user's.
WORKS = {
    name: OPTIONS.get(name, {})
    for name, kind in vars(operators).items()
    if name in {*operators.__all__} - {"PerKey"} and issubclass(kind, KeyedOperator) and not isabstract(kind)
}


@pytest.mark.parametrize("name", list(WORKS))
def test_the_works_hold(name, subtests):
    for outcome in check_operator(import_operator(f"unskew.operators:{name}", WORKS[name]), 60):
        with subtests.test(outcome.name):
            assert outcome.failure == ""


@pytest.mark.parametrize("name", list(WORKS))
def test_only_what_tells_at_the_end_is_waited_for(name):
    """By an engine whose states are whole: settled, then finished."""
    told = "when" in signature(getattr(operators, name)).parameters
    for options in [{"when": "change"}, {"when": "end"}] if told else [{}]:
        work, published = import_operator(f"unskew.operators:{name}", WORKS[name] | options), 0
        for number in range(20):
            of = make_case(work, 6, number, {}, nulls=True)
            empty = [pa.nulls(of.keys, field.type) for field in work.state]
            nothing = pa.RecordBatch.from_arrays(empty, schema=work.state)
            _, states = work.on_merge(nothing, work.update(of.tuples, nothing, of.now)[1], of.now)
            left = work.on_close(states.filter(pa.array(has_state(states))), of.now)
            published += left.num_rows if left is not None else 0
        assert bool(published) == work.emits_on_close


class Count(MergeableOperator):
    """A right work; its subclasses break it."""

    state = COUNT
    results = COUNT

    def to_state(self, tuples):
        return pa.RecordBatch.from_arrays([pa.array(np.ones(tuples.num_rows, np.int64))], schema=COUNT)

    def merge(self, states, slots, keys):
        return self.of(np.bincount(slots.to_numpy(), states.column(0).to_numpy(), keys))

    def of(self, counts):
        return pa.RecordBatch.from_arrays([pa.array(np.asarray(counts).astype(np.int64))], schema=COUNT)


class Unfit(Count):
    def of(self, counts):
        return pa.RecordBatch.from_pydict({"count": np.asarray(counts, np.float64)})


class Short(Count):
    def on_close(self, states, now):
        slots = pa.array([states.num_rows], pa.int32())  # one too many
        return pa.RecordBatch.from_pydict({"slot": slots, "count": pa.array([0])})


class Nameless(Count):
    identity = ("name",)


class Remembering(Count):
    seen = 0

    def update(self, tuples, states, now):
        self.seen += 1
        _, after = super().update(tuples, states, now)
        return None, self.of(after.column(0).to_numpy() + self.seen)


class Whimsical(Count):
    numbers = itertools.count()

    def on_merge(self, before, after, now):
        slots = pa.array(np.arange(after.num_rows, dtype=np.int32))
        counts = pa.array([next(self.numbers) for _ in slots])
        return pa.RecordBatch.from_pydict({"slot": slots, "count": counts}), after


class Batches(Count):
    """Counts batches, not tuples."""

    def update(self, tuples, states, now):
        return None, self.of(states.column(0).fill_null(0).to_numpy() + 1)


class Counted(Batches):
    by_batch = True


class Growing(Count):
    """Each merge counts too."""

    def merge(self, states, slots, keys):
        return self.of(super().merge(states, slots, keys).column(0).to_numpy() + 1)


class First(Count):
    """The time of a tuple, and of several states the first."""

    def to_state(self, tuples):
        return self.of(tuples.column("time").to_numpy())

    def merge(self, states, slots, keys):
        return states.take(pa.array(np.unique(slots.to_numpy(), return_index=True)[1]))


class Mean(Count):
    """A mean of means."""

    def merge(self, states, slots, keys):
        return self.of(1000 * super().merge(states, slots, keys).column(0).to_numpy() // np.bincount(slots.to_numpy()))


class Raising(Count):
    def merge(self, states, slots, keys):
        if len(slots) > 3:
            raise RuntimeError("too\nmany")
        return super().merge(states, slots, keys)


class Renamed(Count):
    """Has an older version, with a number that is today's count."""

    previous_schemas = (pa.schema([("number", pa.int64())]),)

    def upgrade(self, states):
        return self.of(states.column(0).fill_null(0).to_numpy(zero_copy_only=False))


class Forgetful(Renamed):
    upgrade = KeyedOperator.upgrade


class Partial(Renamed):
    def upgrade(self, states):
        return super().upgrade(states.slice(1))


class Alone(KeyedOperator):
    """Can't be split."""

    state = COUNT
    results = COUNT

    def update(self, tuples, states, now):
        return Count().update(tuples, states, now)


def failures(work, **given):
    return {each.name: each.failure for each in check_operator(work, 60, **given) if each.failure}


@pytest.mark.parametrize(
    ("work", "found"),
    [
        (Count, set()),
        (Alone, set()),
        (Counted, set()),
        (Renamed, set()),
        (Forgetful, {"upgrade"}),
        (Partial, {"upgrade"}),
        (Unfit, {"schemas"}),
        (Short, {"schemas"}),
        (Nameless, {"schemas"}),
        (Remembering, {"repeatable"}),
        (Whimsical, {"repeatable"}),
        (Batches, {"cuts", "split"}),
        (Growing, {"alone", "associative"}),
        (First, {"commutative", "cuts", "split"}),
        (Mean, {"associative", "alone"}),
        (Raising, {"schemas", "split"}),
    ],
)
def test_what_is_wrong_is_found(work, found):
    assert failures(work()).keys() >= found
    if not found:
        assert failures(work()) == {}


def test_a_failure_shows_a_small_case():
    assert failures(Short())["schemas"] == "on_close gives a result of slot 1, of 1 keys"
    assert failures(Raising())["schemas"] == "it raises RuntimeError: too many"
    assert failures(Batches())["cuts"] == "{'count': 2} is not {'count': 1}"
    assert failures(Nameless())["schemas"] == "identity has 'name', which results haven't"


def test_what_is_not_checked_is_named():
    skipped = {each.name for each in check_operator(Alone(), 1) if each.skipped}
    assert skipped == {"alone", "commutative", "associative", "split"}
    assert {each.name for each in check_operator(Counted(), 1) if each.skipped} == {"cuts", "split"}
    assert "upgrade" not in {each.name for each in check_operator(Count(), 1)}


def test_functions_that_take_no_nulls():
    def total(key, tuples, state):
        return [], {"count": (state["count"] if state else 0) + sum(int(each["n"]) for each in tuples)}

    work = PerKey(total, state=COUNT, results=COUNT, columns=("n",))
    assert "TypeError" in failures(work, types={"n": pa.int64()})["schemas"]
    assert failures(work, types={"n": pa.int64()}, nulls=False) == {}


HERE = __name__


def test_the_command():
    good = unskew("check-work", f"{HERE}:Count", "--cases", 20)
    assert (good.returncode, good.stderr) == (0, "")
    assert "no failure in 20 cases of seed 0" in good.stdout
    bad = unskew("check-work", f"{HERE}:First", "--cases", 40, "--seed", 3)
    assert (bad.returncode, bad.stderr) == (1, "")
    assert "FAILS  commutative" in bad.stdout
    assert "of seed 3: {'count': 1" in bad.stdout
    bounds = unskew("check-work", "unskew.operators:TopK", "-o", "k=2", "--cases", 5)
    assert bounds.stdout.endswith("agree within the bounds that the operator names\n")
    typed = unskew(
        "check-work", "unskew.operators:Latest", "--work-option", "version=n", "--column", "n=int32", "--cases", 5
    )
    assert typed.returncode == 0
    assert typed.stdout.startswith("unskew.operators:Latest: reads value, n; can be split\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["unskew.operators:Sessions", "-o", "gap"], "--work-option is 'gap'; valid: NAME=VALUE"),
        (["unskew.operators:Latest", "--column", "n=int64"], "the operator reads no column 'n'; valid: value"),
        (["unskew.operators:Latest", "--column", "value=number"], "column value is 'number'; valid: an Arrow type"),
    ],
)
def test_mistakes(arguments, message):
    done = unskew("check-work", *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"unskew: {message}")
    assert done.stderr.count("\n") == 1
