"""Plans in every batch, whatever is reported."""

import random

import numpy as np
import pyarrow as pa

from unskew.grouping import create
from unskew.grouping.feedback import Controller
from unskew.grouping.keys import hash_keys

KEYS = 12
NAMES = pa.array([f"k{key}" for key in range(KEYS)])


class Forced(Controller):
    """Another plan in every batch, and another one each time it is asked: as if it came of measured times."""

    rng = random.Random(0)

    def __init__(self, router):
        super().__init__(router.identity)
        self._router = router

    def _plan(self, reports, queues, sources):
        workers = self._router.workers
        if self._router.name == "CONSISTENT_HASH":
            return {"tokens": np.array([self.rng.choice([1, 2, 4]) for _ in range(workers)])}
        share = self.rng.choice([0.1, 0.7])  # of the keys: fewer than a worker has, and more
        named = np.sort(hash_keys(NAMES)[[self.rng.random() < share for _ in range(KEYS)]])
        return {"table_keys": named, "table_workers": np.array([self.rng.randrange(workers) for _ in named], np.int32)}


def router_of(grouping):
    def new(workers):
        router = create(grouping, workers)
        if router.moves:
            router.controller = lambda: Forced(router)
        return router

    return new
