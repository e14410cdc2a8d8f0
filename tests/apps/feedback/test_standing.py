"""The loop's standing as bytes, and its versions beside the checkpoint."""

import numpy as np

from unskew.apps.feedback.plans import Plans
from unskew.apps.feedback.rebalance import Rebalance
from unskew.apps.feedback.standing import Standing
from unskew.grouping.feedback import Plan


def plan(number: int) -> Plan:
    values = {"table_keys": np.array([1, 1 << 63], np.uint64), "table_workers": np.array([0, 2], np.int32)}
    return Plan(number, number - 1, "MIXED workers=3 seed=0", values)


FULL = Standing(3, plan(4), plan(5), 6, b"\0state", frozenset({2, 0}), (Rebalance(5, 17, 0.25, 9, 3.5, keys=2),))


def test_it_is_the_same_when_it_is_read_again():
    for standing in (Standing(3), FULL):
        again = Standing.read(standing.save())
        assert again == standing
        assert again.save() == standing.save()
    assert Standing(3).pending_workers == 3


def test_a_batch_sees_the_newest_that_was_written_before_it(tmp_path):
    plans = Plans(str(tmp_path))
    assert plans.at(7) is None
    assert plans.written(7) is None
    plans.write(3, Standing(3))
    plans.write(7, FULL)
    assert plans.at(2) is None
    assert plans.at(6) == Standing(3)
    assert plans.at(9) == FULL
    assert plans.written(7) == FULL
    assert plans.written(8) is None
