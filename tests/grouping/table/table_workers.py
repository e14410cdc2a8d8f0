"""Routers, and what their workers report."""

import numpy as np
import pytest

from unskew.grouping import GROUPINGS, encode
from unskew.grouping.table.router import TableRouter

TABLES = [name for name, scheme in GROUPINGS.items() if issubclass(scheme, TableRouter)]
tables = pytest.mark.parametrize("name", TABLES)
WORKERS = 6


def observed(router, keys, workers, costs=None):
    """The workers' reports of one interval."""
    reports = {}
    for worker in np.unique(workers):
        mine = workers == worker
        monitor = router.monitor()
        monitor.observe(encode(keys.distinct.take(keys.codes[mine])), None if costs is None else costs[mine])
        reports[int(worker)] = monitor.report()
    return reports
