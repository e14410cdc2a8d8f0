"""QUANTILES of a column, with a bound on the error of the value."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.apps.operators.interface import MergeableOperator, Summary, make_results
from unskew.apps.operators.list_columns import build_lists, combine_column, flatten_lists, reduce_entries, sort_entries
from unskew.grouping.arguments import check_fractions, check_number

_BUCKETS = pa.list_(pa.struct([("bucket", pa.int32()), ("count", pa.int64())]))


class Quantiles(Summary, MergeableOperator):
    """Quantiles of a column by key, each off by at most ``error`` times the true value.

    A state is a histogram, whose buckets are as wide relative to their values as ``error`` allows. A value's bucket is
    the first bits of its float64: sign, exponent, and some of the mantissa. So counting needs no logarithm, which
    machines may round differently.

    Merging adds counts. So unlike those of ``KllQuantiles``, states don't depend on order, batches and workers. There
    are between 0.5/``error`` and 1/``error`` buckets for each doubling of the values. With 1 % these are 64, and values
    from 1 to 1,000 fill 637 buckets of 12 bytes, however many values there are.

    A tuple costs some 0.3 µs. In each batch with a tuple of a key, each of the key's buckets costs as much.

    Parameters
    ----------
    value : str
        The column, which must be castable to float64.
    at : tuple of float
        The quantiles, each in [0, 1].
    error : float
        The bound of the relative error, in [10⁻⁵, 0.5].
    when : str
        ``change`` (publish at each change) or ``end``.

    Raises
    ------
    ValueError
        A parameter is invalid.

    Notes
    -----
    A result is a row for each quantile, with its ``value`` and the ``count`` of all values. The quantile q of n sorted
    values is the ⌈q·n⌉th, and the first for q = 0. Null, NaN and infinite values are left out.

    References
    ----------
    G. Tene's HdrHistogram has similar buckets. C. Masson, J. Rim, H. Lee, DDSketch, PVLDB 2019, has the error bound
    (section 2), and why rank errors say little about long tails.

    Examples
    --------
    The values of a key are 1 to 100. Both quantiles are within 1 % of the true values, 50 and 99:

    >>> slots = pa.array([0] * 100, pa.int32())
    >>> tuples = pa.RecordBatch.from_pydict({"slot": slots, "time": [5] * 100, "value": range(1, 101)})
    >>> work = Quantiles(at=(0.5, 0.99))
    >>> states = work.merge(work.to_state(tuples), slots, keys=1)
    >>> for result in work.result(states).to_pylist():
    ...     print(result)
    {'slot': 0, 'quantile': 0.5, 'value': 50.25, 'count': 100}
    {'slot': 0, 'quantile': 0.99, 'value': 99.5, 'count': 100}

    """

    state = pa.schema([("buckets", _BUCKETS)])
    results = pa.schema([("quantile", pa.float64()), ("value", pa.float64()), ("count", pa.int64())])
    identity = ("quantile",)

    def __init__(
        self,
        value: str = "value",
        at: tuple[float, ...] = (0.5, 0.9, 0.99),
        error: float = 0.01,
        when: str = "change",
    ) -> None:
        super().__init__(when)
        self.at = check_fractions("at", at)
        places = math.ceil(-math.log2(check_number("error", error, 1e-5, 0.5))) - 1
        self.parameters = {"places": places}
        self._shift = np.int64(52 - places)
        self.value = value
        self.columns = (value,)
        self.types = {value: pa.float64()}

    def to_state(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        """The count of one bucket per tuple, or none if the value isn't finite."""
        values = pc.fill_null(self.column(tuples, self.value), np.nan).to_numpy()
        fit = np.isfinite(values)
        counts = {"bucket": self._bucket(values[fit]), "count": np.ones(fit.sum(), np.int64)}
        alone = build_lists(pa.table({"slot": np.flatnonzero(fit)} | counts), len(values), _BUCKETS)
        return pa.RecordBatch.from_arrays([alone], schema=self.state)

    def _bucket(self, values: NDArray[np.float64]) -> NDArray[np.int32]:
        """The first bits of each value: in the values' order, and 0 around zero."""
        bits = np.abs(values).view(np.int64) >> self._shift
        return np.where(values < 0, -bits, bits).astype(np.int32)

    def _middle(self, buckets: NDArray[np.int32]) -> NDArray[np.float64]:
        bits = np.abs(buckets).astype(np.int64)
        middle = ((bits << self._shift) + (np.int64(1) << (self._shift - 1))).view(np.float64)
        return np.where(bits == 0, 0.0, np.copysign(middle, buckets))

    def merge(self, states: pa.RecordBatch, slots: pa.Array, keys: int) -> pa.RecordBatch:
        flat = sort_entries(
            reduce_entries(flatten_lists(states.column(0), slots.to_numpy()), "bucket", count="sum"), "bucket"
        )
        return pa.RecordBatch.from_arrays([build_lists(flat, keys, _BUCKETS)], schema=self.state)

    def result(self, states: pa.RecordBatch) -> pa.RecordBatch:
        """For each quantile, the middle of the bucket with its rank."""
        keys, quantiles = states.num_rows, len(self.at)
        flat = flatten_lists(states.column(0))
        so_far = np.concatenate([[0], np.cumsum(combine_column(flat, "count").to_numpy())])
        bounds = so_far[np.searchsorted(combine_column(flat, "slot").to_numpy(), np.arange(keys + 1))]
        counts = np.diff(bounds)
        ranks = np.outer(counts, self.at)
        # The product of 100 and 0.07 is rounded to a bit more than 7, but the rank is 7.
        rank = np.maximum(np.ceil(ranks - 2 * np.spacing(ranks)), 1).astype(np.int64)
        found = np.searchsorted(so_far, (bounds[:-1, None] + rank).ravel()) - 1
        empty = np.repeat(counts == 0, quantiles)
        buckets = np.concatenate([combine_column(flat, "bucket").to_numpy(), [0]])
        values = self._middle(buckets[np.where(empty, -1, found)])
        slots = pa.array(np.repeat(np.arange(keys, dtype=np.int32), quantiles))
        at = pa.array(np.tile(np.array(self.at, np.float64), keys))
        return make_results(self, slots, at, pa.array(values, mask=empty), pa.array(np.repeat(counts, quantiles)))
