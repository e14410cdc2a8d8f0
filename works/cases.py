"""Random tuples for checking a work: few keys, few values, so that much coincides; and now and then an odd one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.random import Generator

from unskew.works.interface import KeyedWork, Now

_FLOATS = (0.0, 0.1, 0.25, 1.0, 3.5, -2.0, -0.1, 1e-9, 1e17, -1e17)
_ODD_FLOATS = (float("nan"), float("inf"), -float("inf"), 5e-324)
_TEXTS = ("", "a", "b", "c", "d", "e", "ü", "long " * 20)


@dataclass(frozen=True)
class Case:
    """A batch of tuples of some keys, and where to cut it.

    Attributes
    ----------
    tuples : RecordBatch
        n tuples, of ``keys`` keys, each of which has one.
    keys : int
        k.
    parts : int64[n]
        Which of three batches, or of three workers, each tuple is in.
    now : Now
        The time of the batch.

    """

    tuples: pa.RecordBatch
    keys: int
    parts: np.ndarray
    now: Now

    def part(self, which: int) -> tuple[pa.RecordBatch, np.ndarray]:
        """The tuples of one part, their slots counted from 0, and which keys these are."""
        tuples = self.tuples.filter(pa.array(self.parts == which))
        keys, slots = np.unique(tuples.column("slot").to_numpy(), return_inverse=True)
        return tuples.set_column(0, "slot", pa.array(slots.astype(np.int32))), keys


def case(work: KeyedWork, size: int, seed: int, types: Mapping[str, pa.DataType], *, nulls: bool) -> Case:
    """A case; equal arguments give equal ones.

    Parameters
    ----------
    work : KeyedWork
        Which columns it reads.
    size : int
        The most tuples, at least 1.
    seed : int
        Of what is random.
    types : mapping of str to DataType
        What columns are; others are what the work casts them to, or strings.
    nulls : bool
        Whether values may be null.

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
            columns[name] = _values(random, kind, n, nulls=nulls)
    now = Now(2_000_000, int(random.choice([0, times.min(), times.max() + 1])))
    return Case(pa.RecordBatch.from_pydict(columns), len(keys), random.integers(0, 3, n), now)


def _values(random: Generator, kind: pa.DataType, n: int, *, nulls: bool) -> pa.Array:
    if pa.types.is_floating(kind):
        values = random.choice([*_FLOATS, *(_ODD_FLOATS if nulls else ())], n).tolist()
    elif pa.types.is_integer(kind):
        values = random.integers(0 if pa.types.is_unsigned_integer(kind) else -3, 5, n).tolist()
    elif pa.types.is_boolean(kind):
        values = random.choice([True, False], n).tolist()
    elif pa.types.is_temporal(kind):
        values = random.integers(0, 1000, n).tolist()
    else:
        values = [_TEXTS[i] for i in random.integers(0, len(_TEXTS), n)]
    missing = random.random(n) < 0.1
    shown = [None if nulls and gone else value for value, gone in zip(values, missing, strict=True)]
    return pa.array(shown, kind)
