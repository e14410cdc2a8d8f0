"""What `benchmarks.predict` holds to live runs, and how it says whether the prediction was close."""

from dataclasses import replace

import pytest

from benchmarks.predict import Combination, Found, summary, table
from unskew.apps.whatif.minutes import KEY, Prices

FOUND = Found("R80", 1.0, 10, "PLANNED", True, 4.4, 4.5, 0.9, 0.9, 5.0, 4.8, 5.2, 5.5, 4.0)


def test_batches_are_those_of_the_live_run():
    """As many tuples as the live run's batches have, and of the same stream."""
    each = Combination("R80", 1.0, 10)
    courses = each.predicted(each.size(0.5), 6, Prices())
    assert [batch.tuples for batch in courses[KEY].batches] == [5000] * 6
    assert sum(batch.busiest for batch in courses[KEY].batches) == pytest.approx(6 * 0.5 * 8.2, rel=0.02)


@pytest.mark.parametrize(
    ("cost", "workers", "size"), [(1.0, 10, 5000), (0.2, 4, 10_000), (5.0, 4, 400), (9999.0, 4, 4)]
)
def test_a_batch_is_a_multiple_of_the_sources(cost, workers, size):
    assert Combination("R0", cost, workers).size(0.5) == size


def test_close_is_within_fifteen_percent_of_the_prediction():
    found = [FOUND, replace(FOUND, speedup_measured=5.76), replace(FOUND, speedup_measured=4.24)]
    said = summary(found, {10: 0.35, 4: 0.3})
    assert said.startswith("1 of 3 measured speedups are within 15 % of the predicted ones")
    assert "350 ms with W = 10, 300 ms with W = 4" in said
    assert said.endswith("With the default 400 ms: 1 of 3.")


def test_a_row_says_whether_the_grouping_was_recommended():
    shown = table([FOUND, replace(FOUND, advised=False)])
    assert [*shown.columns[3].cells] == ["PLANNED", "none (PLANNED)"]
    assert [*shown.columns[-1].cells] == ["+10 %", "+10 %"]
