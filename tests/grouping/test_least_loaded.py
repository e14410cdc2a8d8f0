"""The cursor finds the least loaded of all workers, of equals the first, whoever else gets tuples in between."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unskew.grouping.least_loaded import before_first, least_of_all


@given(st.integers(1, 12), st.lists(st.one_of(st.none(), st.integers(0, 11)), max_size=200))
def test_least_of_all(workers, steps):
    loads, cursor = np.zeros(workers, np.int64), before_first()
    for step in steps:
        least = least_of_all(cursor, loads)
        assert least == loads.argmin()
        loads[least if step is None else step % workers] += 1
