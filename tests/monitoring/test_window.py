"""The samples of a closed window."""

import numpy as np

from unskew.apps.aggregator.observer import Distribution
from unskew.apps.checkpoint.versions import Totals
from unskew.apps.metrics import catalogue
from unskew.apps.metrics.metrics_reporter import sample_window


def test_workers_that_got_no_tuple_are_counted():
    tuples = np.array([5, 0, 3, 0])
    window = Distribution(0, 1000, tuples, tuples, np.minimum(tuples, 1), 2, [])
    [whole, *workers] = sample_window(window, Totals(loads=tuples.tolist()))
    assert (whole.subject, whole.values["idle_workers"]) == (catalogue.WINDOW, 2)
    assert [sample.values["tuples"] for sample in workers] == [5, 0, 3, 0]
