"""Whether a work keeps what ``KeyedWork`` promises, tried on random tuples: a contract for any work."""

import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from unskew.works.cases import Case, case
from unskew.works.folded import joined, known, told_schema
from unskew.works.interface import KeyedWork

#: A state a key, and which keys these are.
Held: TypeAlias = tuple[pa.RecordBatch, np.ndarray]


@dataclass(frozen=True)
class Outcome:
    """What became of one property.

    Attributes
    ----------
    name, says : str
        The property.
    skipped : str
        Why it wasn't checked; empty: it was.
    cases : int
        How many cases there were, the last of which failed if one did.
    failure : str
        What was found; empty: it holds.

    """

    name: str
    says: str
    skipped: str
    cases: int
    failure: str


def check(
    work: KeyedWork,
    cases: int = 200,
    seed: int = 0,
    types: Mapping[str, pa.DataType] | None = None,
    *,
    nulls: bool = True,
) -> Iterator[Outcome]:
    """Try every property on random tuples, small cases first.

    Parameters
    ----------
    work : KeyedWork
        What is checked.
    cases : int
        How many; equal seeds give equal ones.
    seed : int
        Of the random tuples.
    types : mapping of str to DataType, optional
        The types of columns for which the work has none; default: strings.
    nulls : bool
        Whether values may be null, floats NaN and infinite.

    """
    for name, (says, holds) in _PROPERTIES.items():
        skipped, failure, tried = _why_not(work, name), "", 0
        while not skipped and not failure and tried < cases:
            tried += 1
            try:
                failure = holds(work, case(work, 1 + tried // 4, seed, types or {}, nulls=nulls)) or ""
            except Exception as error:  # noqa: BLE001  whatever the user's code may raise
                failure = f"it raises {' '.join(f'{type(error).__name__}: {error}'.split())}"
        yield Outcome(name, says, skipped, tried, failure)


def exact(work: KeyedWork) -> bool:
    """Whether its states are compared for equality, and not by what the work allows."""
    return type(work).agree is KeyedWork.agree


def _why_not(work: KeyedWork, name: str) -> str:
    if name not in ("schemas", "repeatable", "cuts") and not work.mergeable:
        return "it has no merge, so that only a grouping that keeps a key at one worker runs it"
    if name in ("cuts", "split") and work.by_batch:
        return "it says that batches matter to it (by_batch)"
    return ""


def _schemas(work: KeyedWork, of: Case) -> str | None:
    """What each method gives: as many states, results of known slots, both as declared."""
    strange = [name for name in work.identity if name not in work.results.names]
    if strange:
        return f"identity has {strange[0]!r}, which results haven't"
    nothing = _new(work, of.keys)
    results, after = work.update(of.tuples, nothing, of.now)
    wrong = _unfit(work, "update", results, after, of.keys)
    settled, kept = work.settle(nothing, after, of.now)
    wrong = wrong or _unfit(work, "settle", settled, kept, of.keys)
    _, again = work.update(of.tuples, kept, of.now)  # what was settled goes on
    wrong = wrong or _unfit(work, "update", None, again, of.keys)
    if work.mergeable and not wrong:
        left = np.flatnonzero(known(kept))
        both = _merged(work, [(kept.take(pa.array(left)), left), (after, np.arange(of.keys))])
        wrong = _unfit(work, "merge", None, both[0], of.keys)
    return wrong or _unfit(work, "finish", work.finish(again, of.now), again, of.keys)


def _unfit(
    work: KeyedWork, method: str, results: pa.RecordBatch | None, states: pa.RecordBatch, keys: int
) -> str | None:
    if states.schema != work.state:
        return f"{method} gives states of {_short(states.schema)}, not of {_short(work.state)}"
    if states.num_rows != keys:
        return f"{method} gives {states.num_rows} states of {keys} keys"
    states.validate(full=True)
    if results is None:
        return None
    if results.schema != told_schema(work):
        return f"{method} gives results of {_short(results.schema)}, not of {_short(told_schema(work))}"
    results.validate(full=True)
    slots = results.column("slot").to_numpy(zero_copy_only=False)
    if len(slots) and not (0 <= slots.min() <= slots.max() < keys):
        return f"{method} gives a result of slot {slots.max()}, of {keys} keys"
    return None


def _repeatable(work: KeyedWork, of: Case) -> str | None:
    """The same of a copy, and of another call: nothing is kept between calls."""
    nothing = _new(work, of.keys)
    results, states = work.update(of.tuples, nothing, of.now)
    told, _ = work.settle(nothing, states, of.now)
    for each in (pickle.loads(_pickled(work)), work):  # noqa: S301
        again, after = each.update(of.tuples, nothing, of.now)
        wrong = _differ(work, states, after)
        if not wrong and exact(work):
            told_again, _ = each.settle(nothing, after, of.now)
            wrong = _unlike(results, again) or _unlike(told, told_again)
        if wrong:
            return wrong
    return None


def _pickled(work: KeyedWork) -> bytes:
    """As it travels to Spark's tasks."""
    try:
        from pyspark import cloudpickle
    except ImportError:
        return pickle.dumps(work)
    return cloudpickle.dumps(work)


def _unlike(one: pa.RecordBatch | None, other: pa.RecordBatch | None) -> str | None:
    rows, others = ([] if each is None else each.to_pylist() for each in (one, other))
    if repr(rows) == repr(others):
        return None
    return f"results {_short(rows)}, another time {_short(others)}"


def _cuts(work: KeyedWork, of: Case) -> str | None:
    """Three batches of a worker, one after the other, and all in one."""
    states = _new(work, of.keys)
    for which in range(3):
        tuples, keys = of.part(which)
        if len(keys):
            after = work.update(tuples, states.take(pa.array(keys)), of.now)[1]
            states = _with(states, after, keys)
    return _differ(work, states, work.update(of.tuples, _new(work, of.keys), of.now)[1])


def _alone(work: KeyedWork, of: Case) -> str | None:
    """A state merged with no other."""
    whole = work.update(of.tuples, _new(work, of.keys), of.now)[1]
    return _differ(work, whole, _merged(work, [(whole, np.arange(of.keys))])[0])


def _commutative(work: KeyedWork, of: Case) -> str | None:
    """The states of three workers, in two orders."""
    a, b, c = _fragments(work, of)
    return _differ(work, _merged(work, [a, b, c])[0], _merged(work, [c, b, a])[0])


def _associative(work: KeyedWork, of: Case) -> str | None:
    """The states of three workers: the first two merged before the third, and the last two before the first."""
    a, b, c = _fragments(work, of)
    left = _merged(work, [_merged(work, [a, b]), c])[0]
    return _differ(work, left, _merged(work, [a, _merged(work, [b, c])])[0]) or _differ(
        work, left, _merged(work, [a, b, c])[0]
    )


def _split(work: KeyedWork, of: Case) -> str | None:
    """Three workers, merged, and one that has all."""
    whole = work.update(of.tuples, _new(work, of.keys), of.now)[1]
    return _differ(work, _merged(work, _fragments(work, of))[0], whole)


Property: TypeAlias = Callable[[KeyedWork, Case], str | None]
_PROPERTIES: dict[str, tuple[str, Property]] = {
    "schemas": ("states and results are as declared", _schemas),
    "repeatable": ("equal tuples and states give equal states and results, of a copy too", _repeatable),
    "cuts": ("batches one after the other give what one batch of all gives", _cuts),
    "alone": ("a state that is merged with no other stays as it is", _alone),
    "commutative": ("the order of the states doesn't matter to merge", _commutative),
    "associative": ("it doesn't matter which states are merged first", _associative),
    "split": ("workers that share a key, merged, have what one with all tuples has", _split),
}


def _new(work: KeyedWork, keys: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(keys, field.type) for field in work.state], schema=work.state)


def _fragments(work: KeyedWork, of: Case) -> list[Held]:
    held = []
    for which in range(3):
        tuples, keys = of.part(which)
        empty = _new(work, len(keys))
        held.append((work.update(tuples, empty, of.now)[1] if len(keys) else empty, keys))
    return held


def _merged(work: KeyedWork, held: list[Held]) -> Held:
    keys, slots = np.unique(np.concatenate([each for _, each in held]), return_inverse=True)
    states = joined([states for states, _ in held], work.state)
    return work.merge(states, pa.array(slots.astype(np.int32)), len(keys)) if len(keys) else states, keys


def _with(states: pa.RecordBatch, after: pa.RecordBatch, keys: np.ndarray) -> pa.RecordBatch:
    """The states, those of these keys replaced."""
    where = np.arange(states.num_rows)
    where[keys] = states.num_rows + np.arange(len(keys))
    return joined([states, after], states.schema).take(pa.array(where))


def _differ(work: KeyedWork, one: pa.RecordBatch, other: pa.RecordBatch) -> str | None:
    """What is found of two lots of states that should agree."""
    if work.agree(one, other):
        return None
    for slot in range(one.num_rows):
        a, b = one.slice(slot, 1), other.slice(slot, 1)
        if not work.agree(a, b):
            return f"{_short(a.to_pylist()[0])} is not {_short(b.to_pylist()[0])}"
    return f"{_short(one.to_pylist())} is not {_short(other.to_pylist())}"


def _short(what: object) -> str:
    text = " ".join(str(what).split())
    return text if len(text) <= 300 else f"{text[:300]} …"
