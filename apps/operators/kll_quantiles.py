"""KLL_QUANTILES of a column, with a bound on the error of the rank."""

from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unskew.apps.operators.interface import Now, ResultsAndStates, Summary, make_results
from unskew.errors import EnvironmentFault
from unskew.grouping.arguments import check_fractions, check_integer


class KllQuantiles(Summary):
    """Quantiles of a column by key, with approximate ranks: a KLL sketch of the datasketches library.

    With probability 99 %, the rank of a quantile among n values is off by at most 1.33 % · n with ``k`` = 200, and by
    at most 0.68 % · n with ``k`` = 400. Up to k values the quantiles are exact. A state has some 3·k values of 8 bytes,
    whatever the values are.

    The sketch uses random numbers without a seed. So a replay may publish other values, within the error bound, which
    overwrite the earlier ones. If equal runs must give equal results, use ``Quantiles``.

    A tuple costs some 0.1 µs. A key in a batch costs some 15 µs, because sketches are read and written one by one.

    Parameters
    ----------
    value : str
        The column, which must be castable to float64. Null, NaN and infinite values are left out.
    at : tuple of float
        The quantiles, each in [0, 1].
    k : int
        The size of the sketch, in [8, 65535].
    when : str
        ``change`` (publish at each change) or ``end``.

    Raises
    ------
    ValueError
        A parameter is invalid.
    EnvironmentFault
        datasketches isn't installed.

    References
    ----------
    Z. Karnin, K. Lang, E. Liberty, Optimal Quantile Approximation in Streams, FOCS 2016.

    Examples
    --------
    A new key, whose state is null, has three values:

    >>> slots = pa.array([0, 0, 0], pa.int32())
    >>> tuples = pa.RecordBatch.from_pydict({"slot": slots, "time": [5, 6, 7], "value": [1.0, 30.0, 2.0]})
    >>> work = KllQuantiles(at=(0.5, 1.0))
    >>> new = pa.RecordBatch.from_arrays([pa.nulls(1, pa.binary())], schema=work.state)
    >>> _, states = work.update(tuples, new, Now(batch_ms=7, watermark_ms=7))
    >>> for result in work.result(states).to_pylist():
    ...     print(result)
    {'slot': 0, 'quantile': 0.5, 'value': 2.0, 'count': 3}
    {'slot': 0, 'quantile': 1.0, 'value': 30.0, 'count': 3}

    """

    state = pa.schema([("sketch", pa.binary())])
    results = pa.schema([("quantile", pa.float64()), ("value", pa.float64()), ("count", pa.int64())])
    identity = ("quantile",)

    def __init__(
        self, value: str = "value", at: tuple[float, ...] = (0.5, 0.9, 0.99), k: int = 200, when: str = "change"
    ) -> None:
        super().__init__(when)
        self.at = check_fractions("at", at)
        self.k = check_integer("k", k, 8, 65535)
        _import_library()
        self.value = value
        self.columns = (value,)
        self.types = {value: pa.float64()}

    def update(self, tuples: pa.RecordBatch, states: pa.RecordBatch, now: Now) -> ResultsAndStates:
        """Add each key's values to its sketch."""
        values = pc.fill_null(self.column(tuples, self.value), np.nan).to_numpy()
        fit = np.isfinite(values)
        slots = tuples.column("slot").to_numpy()[fit]
        order = np.argsort(slots, kind="stable")
        bounds = np.searchsorted(slots[order], np.arange(states.num_rows + 1))
        values = values[fit][order]
        sketches = [self._sketch(state) for state in states.column(0).to_pylist()]
        for sketch, start, stop in zip(sketches, bounds[:-1], bounds[1:], strict=True):
            sketch.update(values[start:stop])
        return None, self._states(sketches)

    def merge(self, states: pa.RecordBatch, slots: pa.Array, keys: int) -> pa.RecordBatch:
        """Merge the sketches of each key."""
        merged = [self._sketch(None) for _ in range(keys)]
        for slot, state in zip(slots.to_pylist(), states.column(0).to_pylist(), strict=True):
            merged[slot].merge(self._sketch(state))
        return self._states(merged)

    def result(self, states: pa.RecordBatch) -> pa.RecordBatch:
        """The quantiles; null for a key without values."""
        sketches = [self._sketch(state) for state in states.column(0).to_pylist()]
        rows = [
            (slot, at, None if sketch.is_empty() else sketch.get_quantile(at, inclusive=True), sketch.n)
            for slot, sketch in enumerate(sketches)
            for at in self.at
        ]
        columns = zip(*rows, strict=True) if rows else ((),) * 4
        kinds = (pa.int32(), pa.float64(), pa.float64(), pa.int64())
        return make_results(self, *(pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)))

    def equivalent(self, one: pa.RecordBatch, other: pa.RecordBatch) -> bool:
        """Whether counts and extremes are equal, and ranks differ by at most four times the 99 % bound."""
        for a, b in zip(one.column(0).to_pylist(), other.column(0).to_pylist(), strict=True):
            first, second = self._sketch(a), self._sketch(b)
            if first.n != second.n:
                return False
            if first.is_empty():
                continue
            if (first.get_min_value(), first.get_max_value()) != (second.get_min_value(), second.get_max_value()):
                return False
            allowed = 4 * first.normalized_rank_error(False) if first.is_estimation_mode() else 1e-9
            points = first.get_quantiles(np.linspace(0, 1, 11))
            if any(abs(first.get_rank(x, True) - second.get_rank(x, True)) > allowed for x in points):
                return False
        return True

    def _sketch(self, state: bytes | None) -> Any:
        kind = _import_library().kll_doubles_sketch
        return kind(self.k) if state is None else kind.deserialize(state)

    def _states(self, sketches: list[Any]) -> pa.RecordBatch:
        blobs = pa.array([sketch.serialize() for sketch in sketches], pa.binary())
        return pa.RecordBatch.from_arrays([blobs], schema=self.state)


def _import_library() -> Any:
    try:
        return import_module("datasketches")
    except ImportError:
        reason = "KllQuantiles needs datasketches, which isn't installed: pip install datasketches"
        raise EnvironmentFault(reason) from None
