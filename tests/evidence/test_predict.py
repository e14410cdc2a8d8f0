"""What `evidence.balance.predict` holds to live runs, and how it says whether the prediction was close."""

import pytest

from evidence.balance.predict import Combination
from unskew.apps.cli.simulation.time_model import KEY, CostConstants


def test_batches_are_those_of_the_live_run():
    """As many tuples as the live run's batches have, and of the same stream."""
    each = Combination("R80", 1.0, 10)
    courses = each.predicted(each.size(0.5), 6, CostConstants())
    assert [batch.tuples for batch in courses[KEY].batches] == [5000] * 6
    assert sum(batch.busiest for batch in courses[KEY].batches) == pytest.approx(6 * 0.5 * 8.2, rel=0.02)


@pytest.mark.parametrize(
    ("cost", "workers", "size"), [(1.0, 10, 5000), (0.2, 4, 10_000), (5.0, 4, 400), (9999.0, 4, 4)]
)
def test_a_batch_is_a_multiple_of_the_sources(cost, workers, size):
    assert Combination("R0", cost, workers).size(0.5) == size
