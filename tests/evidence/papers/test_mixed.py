"""The routing table paper's experiments: the workload is what it says, and the outcomes hold what they must."""

from itertools import islice, pairwise, product

import numpy as np
import pytest

from evidence.papers.mixed import EXPERIMENTS
from evidence.papers.mixed.claims import Claim, Ratios, Series, falls, report_claims
from evidence.papers.mixed.follow import TUPLES_PER_KEY, Case, Workload, follow, sweep
from evidence.papers.page import TELLING, Sizing
from unskew.grouping import create

SMALL = Case().at(keys=2000, workers=5)


@pytest.mark.parametrize("f", [0.2, 1.0, 2.0])
def test_the_workload_fluctuates_as_asked(f):
    """Between two intervals frequencies change places, and some worker's load under hashing changes by f·L̄."""
    home = create("KEY", 10).route(np.arange(3000))
    intervals = list(islice(Workload(keys=3000, f=f, seed=1).intervals(home, 10), 6))
    for before, after in pairwise(intervals):
        assert sorted(before) == sorted(after)
        change = np.abs(np.bincount(home, after, 10) - np.bincount(home, before, 10))
        assert change.max() >= f * TUPLES_PER_KEY * 3000 / 10


def test_the_workload_is_zipf_and_seeded():
    home = np.zeros(1000, np.int32)
    first, again, other = (next(Workload(keys=1000, z=1.0, seed=seed).intervals(home, 1)) for seed in (3, 3, 4))
    assert (first == again).all()
    assert (first != other).any()
    frequencies = np.sort(first)[::-1]
    assert first.sum() == TUPLES_PER_KEY * 1000
    assert frequencies[0] / frequencies[9] == pytest.approx(10, rel=0.2)


@pytest.mark.parametrize("scheme", ["MIXED", "MINTABLE", "MINMIG", "MIXED_BF", "READJ"])
def test_schemes_are_followed(scheme):
    outcome = follow(scheme, SMALL, intervals=3)
    assert len(outcome.tables) == 4
    assert outcome.theta <= 8.01
    assert 0 < outcome.migration < 100
    assert outcome.milliseconds > 0


def test_sweeps_change_what_they_name():
    points = sweep(SMALL, "theta_max", (0.02, 0.3), ("MIXED", "MINTABLE"), 3)
    assert [(p.value, p.scheme) for p in points] == [*product((0.02, 0.3), ("MIXED", "MINTABLE"))]
    assert points[0].outcome.migration > points[2].outcome.migration
    assert points[0].outcome.theta < 2.01
    assert SMALL.at(workers=7).workers == 7
    assert SMALL.at(z=0.5).workload == Workload(keys=2000, z=0.5)


def test_figure_4_is_the_papers():
    report = EXPERIMENTS["figure-4"](Sizing())
    paper, ours = report.columns.index("paper"), report.columns.index("ours")
    stated = [row for row in report.rows if row[paper] is not None]
    assert len(stated) == 5
    assert all(row[paper] == row[ours] for row in stated)


@pytest.mark.slow
def test_what_the_paper_says_of_migration_comes_out():
    rows = EXPERIMENTS["figure-9"](Sizing(scale=TELLING, seed=2)).rows
    moved = {(theta, w, scheme): share for theta, w, scheme, _, share, *_ in rows}
    for theta, w, scheme in moved:
        if scheme == "MIXED" and theta >= 0.02:
            assert moved[theta, w, "MIXED"] < moved[theta, w, "MINTABLE"]
            assert moved[theta, 5, "MIXED"] < moved[theta, 1, "MIXED"]


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [((21.6, 8.77, 8.28), True), ((21.6, 8.77, 9.28), False), ((1.01, 1.01), False), ((float("nan"), 1), False)],
)
def test_a_step_may_rise_a_little_where_numbers_fall(numbers, expected):
    assert falls(numbers) is expected


def test_ratios_are_those_that_the_row_prints():
    ratios = Series({1: 0.96, 5: 2.0, 7: 1.0}) / Series({1: 1.0, 5: 1.0, 7: 0.0})
    assert str(ratios) == "1.0 to 2.0 times"
    assert ratios.are_within(1, 2)
    assert not ratios.are_less(2)
    missing = Ratios(None)
    assert not missing.are_within(0)
    assert not missing.are_less()


def test_a_claim_that_holds_says_so():
    claims = [Claim("8", "A.", "1", True), Claim("8", "B.", "2", True, "why"), Claim("8", "C.", "3", False, "why")]
    assert [row[-1] for row in report_claims("Claims", claims).rows] == ["agree", "agree; why", "why"]
