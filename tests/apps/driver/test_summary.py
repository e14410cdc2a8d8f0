"""What a run without an end keeps of its batches: sums, and nothing of each batch."""

import pickle
from dataclasses import replace

from tests.apps.metrics.live_view import report
from unskew.apps.driver.job_summary import JobTally
from unskew.apps.driver.listeners import Listeners
from unskew.grouping.feedback_loop import Rebalance

BATCHES = 200_000
KEPT = 2000  # bytes


def test_a_run_without_an_end_keeps_no_batches():
    tally = JobTally("MIXED")
    listeners = Listeners("batches", [tally])
    one = report([1, 3])
    for number in range(BATCHES):
        listeners(replace(one, rebalances=(Rebalance(number, number, 0.25, 12, 2.5, keys=2),)))
    assert listeners.failures == 0
    assert len(pickle.dumps(tally)) < KEPT
    summary = tally.summary()
    assert (summary.rebalances, summary.moved_keys, summary.planning_seconds) == (BATCHES, 2 * BATCHES, BATCHES / 4)
