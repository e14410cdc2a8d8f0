"""What the reproduced experiments must show; the smallest sizes that show it."""

import re

import numpy as np
import pytest

from evidence.papers import dkg
from evidence.papers.agreement import compare_cells
from evidence.papers.dpa import METHODS, PAPER, SHAPES, letters, skews
from evidence.papers.mixed import EXPERIMENTS as MIXED
from evidence.papers.page import TELLING, Sizing
from evidence.papers.pkg import EXPERIMENTS as PKG
from evidence.papers.pkg.datasets import CT, LN1, LN2, TW, WP, share_of_first
from evidence.papers.pkg.decision_tree import SCHEMES as TREE_SCHEMES
from evidence.papers.posg import EXPERIMENTS as POSG
from evidence.papers.posg.trial import Stream, trial
from unskew.grouping import create
from unskew.grouping.measures import load_skew

SMALL, TINY = Sizing(scale=TELLING), Sizing(scale=0.0005)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("data", [WP, TW, CT, LN1, LN2], ids=lambda data: data.symbol)
def test_streams_have_the_papers_p1(data):
    keys = data.draw(SMALL)
    assert share_of_first(keys) == pytest.approx(data.p1, rel=0.1)


def test_pkg_table_2_above_the_threshold():
    """Where theory says the limit, paper and ours agree to the second digit; a draw explains what draws can give."""
    found = PKG["table-2"](SMALL).rows
    rows = {(data, w, method): (paper, ours) for data, w, method, paper, ours, *_ in found}
    for case in [("WP", 50, "PKG"), ("WP", 100, "PKG"), ("TW", 100, "PKG"), ("WP", 50, "Off-Greedy")]:
        paper, ours = rows[case]
        assert ours == pytest.approx(paper, rel=0.08)
    assert rows["WP", 5, "PKG"][1] < 1e-4 < rows["WP", 5, "Hashing (KG)"][1]
    why = {row[:3]: row[-1] for row in found}
    assert (why["TW", 10, "Hashing (KG)"], why["TW", 50, "Hashing (KG)"]) == ("a", "c")


def test_pkg_local_estimation_is_nearly_the_oracle():
    for row in PKG["figure-4"](SMALL).rows:
        hashing, oracle, *local = row[2:8]
        assert oracle <= min(local)
        assert max(local) < hashing


def test_pkg_choices_restore_balance():
    rows = {row[0]: row for row in PKG["figure-9"](Sizing(scale=0.03)).rows}
    assert rows[40][2] == "9 (5)"
    assert set(re.findall(r"(\d+) \(", rows[5][2])) <= {"2", "3", "4"}


def test_pkg_bounds_the_histograms_of_a_tree():
    """Two of each feature, class and leaf at most, where shuffling has one at nearly every worker."""
    rows = {row[:2]: row for row in PKG["decision-tree"](TINY).rows}
    for workers in (5, 20, 100):
        kept, of_triplet = ({scheme: rows[workers, scheme][at] for scheme in TREE_SCHEMES} for at in (3, 4))
        assert kept["KEY"] < kept["PARTIAL_KEY"] <= 2 * kept["KEY"] < kept["SHUFFLE"]
        assert of_triplet["KEY"] == 1 < of_triplet["PARTIAL_KEY"] == 2 < of_triplet["SHUFFLE"]


def test_pkg_heavy_hitters_err_less_with_fewer_summaries():
    rows = {row[:3]: row for row in PKG["heavy-hitters"](TINY).rows}
    for at in (4, 5):
        key, partial, shuffle = (rows[0.8, 5, scheme][at] for scheme in ("KEY", "PARTIAL_KEY", "SHUFFLE"))
        assert key < partial < shuffle


def test_posg_theorem():
    for row in POSG["theorem-4.3"](SMALL).rows:
        assert float(row[2]) == pytest.approx(float(row[1]), abs=0.006)
        assert float(row[3]) == pytest.approx(float(row[1]), abs=0.1)


def test_posg_speed_up_in_the_default_setting():
    """Long streams reach the paper's 1.19 in its text's accounting; the prototype's does better."""
    written, clock = (
        np.mean([trial(Stream(m=150_000), seed, settle=settle).speed_up for seed in range(6)])
        for settle in ("work", "clock")
    )
    assert 1.1 < written < clock
    known = trial(Stream(), 0)
    assert known.full_knowledge < min(known.posg, known.round_robin)


def test_posg_is_faster_than_round_robin_by_default():
    """With a little too many workers, which idle at times: there the paper's accounting is slower."""
    default, written = (
        np.mean([trial(Stream(provisioning=1.02), seed, **options).speed_up for seed in range(6)])
        for options in ({}, {"settle": "work"})
    )
    assert written < 0.95
    assert default > 1.05


def test_posg_cannot_start_as_early_as_the_paper_says():
    """By equation 1 no sketch is stable after two windows, nearly all are after four; then little is left to gain."""
    rows = {row[0]: row for row in POSG["start"](SMALL).rows}
    assert rows[2][3] == 0
    assert rows[4][3] > 95
    assert rows[4][5] < 1.19 < rows[2][5]


def test_posg_with_one_instance_is_round_robin():
    assert trial(Stream(k=1), 3).speed_up == 1


@pytest.mark.parametrize("name", SHAPES)
def test_dpa_workloads_have_the_papers_skew(name):
    found = [(seed, chosen) for seed in range(200) if (chosen := letters(name, seed)) is not None]
    assert found
    seed, chosen = found[0]
    assert len(chosen) == 100
    for method in METHODS:
        loads = np.bincount(create("CONSISTENT_HASH", 4, seed=seed, method=method).route(list(chosen)), minlength=4)
        assert load_skew(loads) == pytest.approx(PAPER[name, method][0], abs=0.005)


def test_dpa_a_round_relieves_the_most_skewed():
    for name, method in (("WL1", "doubling"), ("WL4", "halving"), ("WL5", "doubling")):
        before, after = skews(name, method, 0, 20, 0), skews(name, method, 1, 20, 0)
        assert after.mean() < before.mean() - 0.1


def test_dkg_between_its_bounds():
    rows = {row[1]: row for row in dkg.half_skew(SMALL).rows}
    assert rows["SHUFFLE"][3] < rows["DYNAMIC_KEY"][3] < rows["PARTIAL_KEY"][3] < rows["KEY"][3]
    assert rows["KEY"][5] == 1 < rows["DYNAMIC_KEY"][5] < rows["SHUFFLE"][5] == 10
    assert rows["DYNAMIC_KEY_DECAY"][4] < rows["DYNAMIC_KEY"][4]
    assert rows["PARTIAL_KEY"][-1] == "c"  # at the end no key is hot


@pytest.mark.parametrize(("paper", "experiments"), [("pkg", PKG), ("posg", POSG), ("mixed", MIXED)])
def test_every_experiment_gives_a_whole_table(paper, experiments, tmp_path):
    """Which can be saved, with its picture if it has one. Table 2 has parameters alone."""
    for name, run in experiments.items():
        report, parameters = run(TINY), (paper, name) == ("mixed", "table-2")
        assert report.rows
        assert all(len(row) == len(report.columns) for row in report.rows)
        assert len(compare_cells(f"{paper}/{name}", report)) == (0 if parameters else len(report.rows))
        assert [file.suffix for file in report.save(tmp_path, name)] == [".csv", ".png"][: 1 + bool(report.plot)]
