"""Set-up compiles all that routing needs: a kernel compiled later, for other types, would stall the first batches."""

import sys

import numpy as np
import pyarrow as pa
from numba.core.dispatcher import Dispatcher
from skewed import skewed

from grouping import GROUPINGS, compile_all, create


def compiled():
    return {
        f"{module_name}.{name}": len(kernel.signatures)
        for module_name, module in list(sys.modules.items())
        if module_name.startswith("grouping")
        for name, kernel in vars(module).items()
        if isinstance(kernel, Dispatcher)
    }


def test_compile_all_leaves_nothing_to_compile():
    compile_all()
    before = compiled()
    stream = skewed(500)
    strings = pa.array(stream.keys)
    for name in GROUPINGS:
        for keys in (stream.keys, strings, strings.dictionary_encode(), np.arange(500), np.arange(500, dtype=np.int32)):
            for workers in (1, 2, 10):
                for times, costs in ((stream.times, stream.costs), (5, 2), (np.repeat(stream.times, 2)[::2], 0.5)):
                    first, second = create(name, workers), create(name, workers)
                    first.foresee(keys)
                    first.route(keys, times=times, costs=costs)
                    second.load(first.save())
                    second.route(keys, times=times, costs=costs)
    assert compiled() == before
