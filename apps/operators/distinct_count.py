"""DISTINCT_COUNT: an estimate of how many ids a key has, by HyperLogLog."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.apps.operators.interface import MergeableOperator, Summary, make_results
from unskew.apps.operators.list_columns import gather_lists, repeat_slots, wrap_values
from unskew.grouping.arguments import check_integer
from unskew.grouping.keys import encode_keys

_REGISTERS = pa.list_(pa.uint32())
_RANKS = 66  # a register is 0 to 65


class DistinctCount(Summary, MergeableOperator):
    """The number of distinct ids of a key, estimated.

    A sketch is an array of m registers, of which ``log2_registers`` is the logarithm. The first bits of an id's hash
    choose a register. The register keeps the largest number of leading zeros, plus one, of the other bits. Registers
    that are 0 aren't stored.

    Merging takes the larger value of each register. So a sketch doesn't depend on the order, the batches or the
    workers. The sketches of the datasketches library do: for a better estimate they remember the order of insertion.
    They also take one id a call.

    The standard error of the estimate is 1.04/√m, which is 2.3 % with 11 bits. A tuple costs some 0.2 µs, and a key at
    most 4·m bytes.

    Parameters
    ----------
    id : str
        The column with the id: text, bytes or integers. Null is an id too.
    log2_registers : int
        In [4, 16].
    when : str
        ``change`` (publish at each change) or ``end``.

    Raises
    ------
    ValueError
        A parameter is invalid.
    TypeError
        ``to_state`` or ``update`` gets ids of another type, such as floats.

    References
    ----------
    P. Flajolet, É. Fusy, O. Gandouet, F. Meunier, HyperLogLog, 2007. The estimate is the improved one of O. Ertl, New
    cardinality estimation algorithms for HyperLogLog sketches, 2017, algorithm 6. It needs no corrections for small
    and large numbers.

    Examples
    --------
    A key has 300 tuples with 100 ids. The estimate is off by 1.5 %:

    >>> slots = pa.array([0] * 300, pa.int32())
    >>> tuples = pa.RecordBatch.from_pydict({"slot": slots, "time": [5] * 300, "id": [i % 100 for i in range(300)]})
    >>> work = DistinctCount()
    >>> states = work.merge(work.to_state(tuples), slots, keys=1)
    >>> round(work.result(states).column("count")[0].as_py(), 1)
    101.5

    """

    state = pa.schema([("registers", _REGISTERS)])
    results = pa.schema([("count", pa.float64())])

    def __init__(self, id: str = "id", log2_registers: int = 11, when: str = "change") -> None:  # noqa: A002
        super().__init__(when)
        self.bits = check_integer("log2_registers", log2_registers, 4, 16)
        self.parameters = {"log2_registers": self.bits}
        self.id = id
        self.columns = (id,)

    def to_state(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        """One register for each tuple, stored as number · 64 + value − 1. In order, the largest is last."""
        ids = encode_keys(self.column(tuples, self.id))
        hashes = ids.hashes[ids.codes]
        register = hashes >> np.uint64(64 - self.bits)
        rest = hashes << np.uint64(self.bits)
        zeros = np.minimum(_leading_zeros(rest), 64 - self.bits)
        packed = ((register << np.uint64(6)) + zeros.astype(np.uint64)).astype(np.uint32)
        lists = wrap_values(pa.array(packed), _REGISTERS)
        return pa.RecordBatch.from_arrays([lists], schema=self.state)

    def merge(self, states: pa.RecordBatch, slots: pa.Array, keys: int) -> pa.RecordBatch:
        """The largest value of each register of a key."""
        owners = repeat_slots(states.column(0), slots.to_numpy()).to_numpy()
        both = (owners.astype(np.uint64) << np.uint64(32)) + states.column(0).flatten().to_numpy()
        both.sort()
        last = np.ones(len(both), np.bool_)
        last[:-1] = both[1:] >> np.uint64(6) != both[:-1] >> np.uint64(6)
        both = both[last]
        slot = pa.array((both >> np.uint64(32)).astype(np.int32))
        registers = pa.array((both & np.uint64(0xFFFFFFFF)).astype(np.uint32))
        return pa.RecordBatch.from_arrays([gather_lists(slot, registers, keys, _REGISTERS)], schema=self.state)

    def result(self, states: pa.RecordBatch) -> pa.RecordBatch:
        """The estimates, from how many of a key's registers have each value."""
        keys, m = states.num_rows, 1 << self.bits
        owners = repeat_slots(states.column(0)).to_numpy().astype(np.int64)
        values = (states.column(0).flatten().to_numpy() & np.uint32(63)).astype(np.int64) + 1
        multiplicity = np.bincount(owners * _RANKS + values, minlength=keys * _RANKS).reshape(keys, _RANKS)
        multiplicity[:, 0] = m - multiplicity.sum(axis=1)
        estimates = _estimate_counts(multiplicity.astype(np.float64), m, 64 - self.bits)
        return make_results(self, pa.array(np.arange(keys, dtype=np.int32)), pa.array(estimates))


def _leading_zeros(numbers: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Of 64 bits."""
    zeros = np.zeros(len(numbers), np.int64)
    left = numbers.copy()
    for step in (32, 16, 8, 4, 2, 1):
        small = left < np.uint64(1) << np.uint64(64 - step)
        zeros += step * small
        left = np.where(small, left << np.uint64(step), left)
    return zeros + (left == 0)


def _estimate_counts(multiplicity: NDArray[np.float64], m: int, q: int) -> NDArray[np.float64]:
    """Ertl's algorithm 6 for k sketches at once: float64[k, values] → float64[k]."""
    z = m * _tau(1.0 - multiplicity[:, q + 1] / m)
    for value in range(q, 0, -1):
        z = 0.5 * (z + multiplicity[:, value])
    with np.errstate(divide="ignore"):  # of an empty sketch: 0
        return m / (2 * np.log(2)) * m / (z + m * _sigma(multiplicity[:, 0] / m))


def _sigma(x: NDArray[np.float64]) -> NDArray[np.float64]:
    y, z = 1.0, x.copy()
    with np.errstate(over="ignore"):
        while True:
            x, before = x * x, z
            z = z + x * y
            y += y
            if (np.isinf(z) | (z == before)).all():
                return z
            z = np.where(x == 1.0, np.inf, z)


def _tau(x: NDArray[np.float64]) -> NDArray[np.float64]:
    done = (x == 0.0) | (x == 1.0)
    y, z = 1.0, 1.0 - x
    while True:
        x, before = np.sqrt(x), z
        y *= 0.5
        z = z - (1.0 - x) ** 2 * y
        if (done | (z == before)).all():
            return np.where(done, 0.0, z / 3.0)
