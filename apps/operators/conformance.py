"""Test on random tuples whether an operator fulfils the contract of ``KeyedOperator``.

The tuples have few keys and few values, so that many coincide. Some values are extreme.
"""

import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.random import Generator

from unskew.apps.operators.interface import KeyedOperator, Now, concat_batches, has_state, result_schema

_FLOATS = (0.0, 0.1, 0.25, 1.0, 3.5, -2.0, -0.1, 1e-9, 1e17, -1e17)

_ODD_FLOATS = (float("nan"), float("inf"), -float("inf"), 5e-324)

_TEXTS = ("", "a", "b", "c", "d", "e", "ü", "long " * 20)

#: States, one per key, and these keys' numbers.
States: TypeAlias = tuple[pa.RecordBatch, np.ndarray]


@dataclass(frozen=True)
class PropertyResult:
    """The result of checking one property."""

    name: str  #: The property's name, and the property as a sentence.
    says: str
    skipped: str  #: Why the property wasn't checked; empty if it was.
    cases: int  #: How many cases were tried. If one failed, it was the last.
    failure: str  #: How the operator breaks the property; empty if it holds.


@dataclass(frozen=True)
class OperatorCase:
    """A batch of tuples of some keys, and where to cut it."""

    tuples: pa.RecordBatch  #: n tuples of ``keys`` keys. Each key has at least one.
    keys: int  #: k, the number of keys.
    #: int64[n]: The part of each tuple, 0 to 2. The parts stand for three batches, or for three workers.
    parts: np.ndarray
    now: Now  #: The time of the batch.

    def part(self, which: int) -> tuple[pa.RecordBatch, np.ndarray]:
        """The tuples of one part, with slots counted from 0, and the numbers of the part's keys."""
        tuples = self.tuples.filter(pa.array(self.parts == which))
        keys, slots = np.unique(tuples.column("slot").to_numpy(), return_inverse=True)
        return tuples.set_column(0, "slot", pa.array(slots.astype(np.int32))), keys


def check_operator(
    work: KeyedOperator,
    cases: int = 200,
    seed: int = 0,
    types: Mapping[str, pa.DataType] | None = None,
    *,
    nulls: bool = True,
) -> Iterator[PropertyResult]:
    """Check every property on random tuples, small cases first.

    Equal seeds give equal cases. ``types`` has those of columns that are not in the operator's ``types``, by default
    strings. With ``nulls``, values may be null, and floats also NaN or infinite.
    """
    for name, (says, holds) in _PROPERTIES.items():
        if name == "upgrade" and not work.previous_schemas:
            continue
        skipped, failure, tried = _why_not(work, name), "", 0
        while not skipped and not failure and tried < cases:
            tried += 1
            try:
                failure = holds(work, make_case(work, 1 + tried // 4, seed, types or {}, nulls=nulls)) or ""
            except Exception as error:  # noqa: BLE001  whatever the user's code may raise
                failure = f"it raises {' '.join(f'{type(error).__name__}: {error}'.split())}"
        yield PropertyResult(name, says, skipped, tried, failure)


def compares_exactly(work: KeyedOperator) -> bool:
    """Whether the operator's states are compared for equality. If not, it overrides ``equivalent``."""
    return type(work).equivalent is KeyedOperator.equivalent


def _why_not(work: KeyedOperator, name: str) -> str:
    if name not in ("schemas", "repeatable", "cuts", "upgrade") and not work.mergeable:
        return "it has no merge, so that only a grouping that keeps a key at one worker runs it"
    if name in ("cuts", "split") and work.by_batch:
        return "it says that batches matter to it (by_batch)"
    return ""


def _check_schemas(work: KeyedOperator, of: OperatorCase) -> str | None:
    """Each method returns a state for each key and results of valid slots, with the declared schemas."""
    strange = [name for name in work.identity if name not in work.results.names]
    if strange:
        return f"identity has {strange[0]!r}, which results haven't"
    nothing = _make_new_states(work, of.keys)
    results, after = work.update(of.tuples, nothing, of.now)
    wrong = _describe_mismatch(work, "update", results, after, of.keys)
    settled, kept = work.on_merge(nothing, after, of.now)
    wrong = wrong or _describe_mismatch(work, "on_merge", settled, kept, of.keys)
    moments = work.due(kept)
    if not wrong and moments is not None and (moments.type != pa.int64() or len(moments) != of.keys):
        return f"due gives {len(moments)} {moments.type} of {of.keys} states"
    _, again = work.update(of.tuples, kept, of.now)  # from the states after on_merge
    wrong = wrong or _describe_mismatch(work, "update", None, again, of.keys)
    if work.mergeable and not wrong:
        left = np.flatnonzero(has_state(kept))
        both = _merge_fragments(work, [(kept.take(pa.array(left)), left), (after, np.arange(of.keys))])
        wrong = _describe_mismatch(work, "merge", None, both[0], of.keys)
    return wrong or _describe_mismatch(work, "on_close", work.on_close(again, of.now), again, of.keys)


def _describe_mismatch(
    work: KeyedOperator, method: str, results: pa.RecordBatch | None, states: pa.RecordBatch, keys: int
) -> str | None:
    if states.schema != work.state:
        return f"{method} gives states of {_shorten_text(states.schema)}, not of {_shorten_text(work.state)}"
    if states.num_rows != keys:
        return f"{method} gives {states.num_rows} states of {keys} keys"
    states.validate(full=True)
    if results is None:
        return None
    if results.schema != result_schema(work):
        return f"{method} gives results of {_shorten_text(results.schema)}, not of {_shorten_text(result_schema(work))}"
    results.validate(full=True)
    slots = results.column("slot").to_numpy(zero_copy_only=False)
    if len(slots) and not (0 <= slots.min() <= slots.max() < keys):
        return f"{method} gives a result of slot {slots.max()}, of {keys} keys"
    return None


def _check_repeatability(work: KeyedOperator, of: OperatorCase) -> str | None:
    """A copy, or a second call, gives the same: nothing is kept between calls."""
    nothing = _make_new_states(work, of.keys)
    results, states = work.update(of.tuples, nothing, of.now)
    settled, _ = work.on_merge(nothing, states, of.now)
    for each in (pickle.loads(_pickle_operator(work)), work):  # noqa: S301
        again, after = each.update(of.tuples, nothing, of.now)
        wrong = _compare_states(work, states, after)
        if not wrong and compares_exactly(work):
            settled_again, _ = each.on_merge(nothing, after, of.now)
            wrong = _compare_results(results, again) or _compare_results(settled, settled_again)
        if wrong:
            return wrong
    return None


def _pickle_operator(work: KeyedOperator) -> bytes:
    """The operator, serialised as for Spark's tasks."""
    try:
        from pyspark import cloudpickle  # an extra: deferred, as the library imports without pyspark
    except ImportError:
        return pickle.dumps(work)
    return cloudpickle.dumps(work)


def _compare_results(one: pa.RecordBatch | None, other: pa.RecordBatch | None) -> str | None:
    rows, others = ([] if each is None else each.to_pylist() for each in (one, other))
    if repr(rows) == repr(others):
        return None
    return f"results {_shorten_text(rows)}, another time {_shorten_text(others)}"


def _check_cuts(work: KeyedOperator, of: OperatorCase) -> str | None:
    """Three consecutive batches of a worker, against one batch."""
    states = _make_new_states(work, of.keys)
    for which in range(3):
        tuples, keys = of.part(which)
        if len(keys):
            after = work.update(tuples, states.take(pa.array(keys)), of.now)[1]
            states = _replace_states(states, after, keys)
    return _compare_states(work, states, work.update(of.tuples, _make_new_states(work, of.keys), of.now)[1])


def _check_single_merge(work: KeyedOperator, of: OperatorCase) -> str | None:
    """A state merged with no other."""
    whole = work.update(of.tuples, _make_new_states(work, of.keys), of.now)[1]
    return _compare_states(work, whole, _merge_fragments(work, [(whole, np.arange(of.keys))])[0])


def _check_commutativity(work: KeyedOperator, of: OperatorCase) -> str | None:
    """The states of three workers, in two orders."""
    a, b, c = _make_fragments(work, of)
    return _compare_states(work, _merge_fragments(work, [a, b, c])[0], _merge_fragments(work, [c, b, a])[0])


def _check_associativity(work: KeyedOperator, of: OperatorCase) -> str | None:
    """The states of three workers: the first two merged before the third, and the last two before the first."""
    a, b, c = _make_fragments(work, of)
    left = _merge_fragments(work, [_merge_fragments(work, [a, b]), c])[0]
    return _compare_states(
        work, left, _merge_fragments(work, [a, _merge_fragments(work, [b, c])])[0]
    ) or _compare_states(work, left, _merge_fragments(work, [a, b, c])[0])


def _check_split_keys(work: KeyedOperator, of: OperatorCase) -> str | None:
    """Three workers' merged states, against one worker's."""
    whole = work.update(of.tuples, _make_new_states(work, of.keys), of.now)[1]
    return _compare_states(work, _merge_fragments(work, _make_fragments(work, of))[0], whole)


def _check_upgrade(work: KeyedOperator, of: OperatorCase) -> str | None:
    """States of older schemas: columns that still exist have today's values, others random ones."""
    states, random = work.update(of.tuples, _make_new_states(work, of.keys), of.now)[1], np.random.default_rng(of.keys)
    for schema in work.previous_schemas:
        columns = [
            states.column(field.name)
            if field in [*work.state]
            else _draw_values(random, field.type, of.keys, nulls=True)
            for field in schema
        ]
        old = pa.RecordBatch.from_arrays(columns, schema=schema)
        new = work.upgrade(old)
        wrong = _describe_mismatch(work, "upgrade", None, new, of.keys)
        wrong = wrong or _compare_states(work, new, work.upgrade(old))
        if not wrong:
            results, after = work.update(of.tuples, new, of.now)
            wrong = _describe_mismatch(work, "update", results, after, of.keys)
        if not wrong:
            wrong = _describe_mismatch(work, "on_close", work.on_close(new, of.now), new, of.keys)
        if not wrong and work.mergeable:
            both = _merge_fragments(work, [(new, np.arange(of.keys)), (states, np.arange(of.keys))])
            wrong = _describe_mismatch(work, "merge", None, both[0], of.keys)
        if wrong:
            return f"of states of {_shorten_text(schema)}: {wrong}"
    return None


Property: TypeAlias = Callable[[KeyedOperator, OperatorCase], str | None]

_PROPERTIES: dict[str, tuple[str, Property]] = {
    "schemas": ("states and results are as declared", _check_schemas),
    "repeatable": ("equal tuples and states give equal states and results, of a copy too", _check_repeatability),
    "cuts": ("batches one after the other give what one batch of all gives", _check_cuts),
    "alone": ("a state that is merged with no other stays as it is", _check_single_merge),
    "commutative": ("the order of the states doesn't matter to merge", _check_commutativity),
    "associative": ("it doesn't matter which states are merged first", _check_associativity),
    "split": ("workers that share a key, merged, have what one with all tuples has", _check_split_keys),
    "upgrade": ("states of the older schemas become states that the work goes on with", _check_upgrade),
}


def _make_new_states(work: KeyedOperator, keys: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(keys, field.type) for field in work.state], schema=work.state)


def _make_fragments(work: KeyedOperator, of: OperatorCase) -> list[States]:
    fragments = []
    for which in range(3):
        tuples, keys = of.part(which)
        empty = _make_new_states(work, len(keys))
        fragments.append((work.update(tuples, empty, of.now)[1] if len(keys) else empty, keys))
    return fragments


def _merge_fragments(work: KeyedOperator, parts: list[States]) -> States:
    keys, slots = np.unique(np.concatenate([each for _, each in parts]), return_inverse=True)
    states = concat_batches([states for states, _ in parts], work.state)
    return work.merge(states, pa.array(slots.astype(np.int32)), len(keys)) if len(keys) else states, keys


def _replace_states(states: pa.RecordBatch, after: pa.RecordBatch, keys: np.ndarray) -> pa.RecordBatch:
    """The states, with those of ``keys`` replaced by ``after``."""
    where = np.arange(states.num_rows)
    where[keys] = states.num_rows + np.arange(len(keys))
    return concat_batches([states, after], states.schema).take(pa.array(where))


def _compare_states(work: KeyedOperator, one: pa.RecordBatch, other: pa.RecordBatch) -> str | None:
    """How two batches of states that should agree differ; None: they agree."""
    if work.equivalent(one, other):
        return None
    for slot in range(one.num_rows):
        a, b = one.slice(slot, 1), other.slice(slot, 1)
        if not work.equivalent(a, b):
            return f"{_shorten_text(a.to_pylist()[0])} is not {_shorten_text(b.to_pylist()[0])}"
    return f"{_shorten_text(one.to_pylist())} is not {_shorten_text(other.to_pylist())}"


def _shorten_text(what: object) -> str:
    text = " ".join(str(what).split())
    return text if len(text) <= 300 else f"{text[:300]} …"


def make_case(
    work: KeyedOperator, size: int, seed: int, types: Mapping[str, pa.DataType], *, nulls: bool
) -> OperatorCase:
    """A random case of at most ``size`` tuples, with the operator's columns. Equal arguments give equal cases.

    A column has its type in ``types``, or the one to which the operator casts it, or is a string.
    """
    random = np.random.default_rng([seed, size])
    n = int(random.integers(1, size + 1))
    keys, slots = np.unique(random.integers(0, random.integers(1, 5), n), return_inverse=True)
    times = 1_000_000 + random.integers(0, random.choice([1, 20, 100_000]), n)
    columns: dict[str, Any] = {"slot": pa.array(slots.astype(np.int32)), "time": pa.array(times)}
    for name in work.columns:
        if name == "key":
            columns[name] = pa.array([f"key {each}" for each in keys[slots]])
        else:
            kind = types.get(name) or work.types.get(name) or pa.string()
            columns[name] = _draw_values(random, kind, n, nulls=nulls)
    now = Now(2_000_000, int(random.choice([0, times.min(), times.max() + 1])))
    return OperatorCase(pa.RecordBatch.from_pydict(columns), len(keys), random.integers(0, 3, n), now)


def _draw_values(random: Generator, kind: pa.DataType, n: int, *, nulls: bool) -> pa.Array:
    if pa.types.is_floating(kind):
        values = random.choice([*_FLOATS, *(_ODD_FLOATS if nulls else ())], n).tolist()
    elif pa.types.is_integer(kind):
        values = random.integers(0 if pa.types.is_unsigned_integer(kind) else -3, 5, n).tolist()
    elif pa.types.is_boolean(kind):
        values = random.choice([True, False], n).tolist()
    elif pa.types.is_temporal(kind):
        values = random.integers(0, 1000, n).tolist()
    elif pa.types.is_nested(kind):
        values = [None] * n
    else:
        values = [_TEXTS[i] for i in random.integers(0, len(_TEXTS), n)]
    missing = random.random(n) < 0.1
    shown = [None if nulls and gone else value for value, gone in zip(values, missing, strict=True)]
    return pa.array(shown, kind)
