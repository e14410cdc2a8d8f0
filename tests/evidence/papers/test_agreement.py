"""How many figures agree with the papers': the rules, and that the committed page says what its tables do."""

import re

import pytest

from evidence.papers import claimed
from evidence.papers.agreement import (
    COMPARED,
    NEAR,
    PRINTED,
    SPEED_UP,
    TITLE,
    VERDICTS,
    Pair,
    Table,
    summary,
    verdicts,
)
from evidence.papers.command import LIVE, PAPERS, _chosen
from tests.pages import ROOT

FOLDER = ROOT / "evidence/papers/tables"
LIVE_FOLDER = FOLDER / "live"
TABLES = {table.name: table for table in (Table.read(file, "") for file in sorted(FOLDER.glob("*.csv")))}
LIVE_TABLES = {table.name: table for table in (Table.read(file, "") for file in sorted(LIVE_FOLDER.glob("*.csv")))}


def counted(table):
    found = [verdict for _, verdict in verdicts(table)]
    return tuple(found.count(verdict) for verdict in VERDICTS)


@pytest.mark.parametrize(
    ("kind", "paper", "ours", "agrees"),
    [
        (PRINTED, "32.08", "32.085", True),
        (PRINTED, "32.08", "32.086", False),
        (PRINTED, "0.49", "0.49333", True),
        (PRINTED, "10, 10", "10, 10", True),
        (PRINTED, "10, 10", "10, 11", False),
        (PRINTED, "7 → d2", "7 → d1", False),
        (NEAR, "0.027", "0.0268", True),
        (NEAR, "≈ 1.2", "1.1", True),
        (NEAR, "≈ 1.2", "1.0", False),
        (NEAR, "3.7e-08", "4.55e-07", False),
        (NEAR, "≈ 1.2", "", False),
        (SPEED_UP, "1.19", "1.13 [0.9, 1.3]", True),
        (SPEED_UP, "1.19", "1.12 [0.9, 1.3]", False),
        (SPEED_UP, "≥ 1.15", "1.40 [1.2, 1.5]", True),
        (SPEED_UP, "≥ 1.15", "1.01 [0.9, 1.2]", False),
    ],
)
def test_tolerances(kind, paper, ours, agrees):
    assert kind.agrees(Pair(paper, ours, {"why they differ": ""}, [])) is agrees


MOVES_MORE = "Stock: MinTable is slower, because it moves more"


@pytest.mark.parametrize(
    ("paper", "ours", "holds"),
    [
        ("smaller θmax: more migration", "%: 21.6 at 0, 8.77 at 0.02, 8.28 at 0.05", True),
        ("smaller θmax: more migration", "%: 21.6 at 0, 8.77 at 0.02, 9.28 at 0.05", False),
        ("loads end within θmax", "θ, %: 0.0065 at 0, 7.89 at 0.08", True),
        ("loads end within θmax", "θ, %: 0.0065 at 0, 8.2 at 0.08", False),
        ("larger β: a smaller table, stable from 1.5 on", "entries: 1.01e+03 at 1, 114 at 1.5, 110 at 2", True),
        ("larger β: a smaller table, stable from 1.5 on", "entries: 1.01e+03 at 1, 114 at 1.5, 90 at 2", False),
        ("Stock: Mixed is best with the strictest θmax", "(0.02, 0.3): 79,016, 72,818 tuples/s", True),
        ("Stock: Mixed is best with the strictest θmax", "(0.02, 0.3): 800, 900 tuples/s", False),
        ("Ideal is the best always", "f = 0.2, 1: Mixed has nan%, nan% of its throughput", False),
        ("Stock: about twice Storm's and Readj's with small θmax", "1.33 and 1.04 times", False),
        (MOVES_MORE, "97%, 90% of Mixed's; it moves 12, 8 states, Mixed 7, 4", True),
        (MOVES_MORE, "97%, 101% of Mixed's; it moves 2, 8 states, Mixed 7, 4", False),
        (
            "Stock: Mixed is balanced over the new worker much sooner than Readj (5 minutes)",
            "from the third batch on 1.15 and 0.95 times the throughput before",
            True,
        ),
    ],
)
def test_claims(paper, ours, holds):
    assert claimed.holds(paper, ours) is holds


def test_every_experiment_with_results_is_counted():
    there = set(_chosen(list(PAPERS), list(PAPERS), "EXPERIMENTS"))
    assert there - set(COMPARED) == {"mixed/table-2"}, "parameters"
    assert set(TABLES) == there
    live = set(_chosen(LIVE, LIVE, "LIVE"))
    assert live <= set(COMPARED)
    assert set(LIVE_TABLES) == live


def test_tables_have_the_papers_column():
    for name, table in (TABLES | LIVE_TABLES).items():
        for compared in COMPARED.get(name, ()):
            if any("paper" in column for column in table.columns):
                assert compared.paper in table.columns, name


def test_no_committed_figure_differs_without_a_reason():
    assert not [name for name, table in (TABLES | LIVE_TABLES).items() if counted(table)[2]]


@pytest.mark.parametrize("folder", [FOLDER, LIVE_FOLDER], ids=["simulated", "live"])
def test_the_committed_page_counts_its_tables(folder):
    text = (folder / "README.md").read_text(encoding="utf-8")
    titles = {csv: title for title, csv in re.findall(r"(?ms)^## ([^\n]+)\n(?:(?!^## ).)*?\[As CSV\]\((.+?)\)", text)}
    tables = [Table.read(folder / csv, title) for csv, title in titles.items()]
    assert len(tables) == len(list(folder.glob("*.csv")))
    assert text.count(f"## {TITLE}") == 1
    assert summary(tables, {name: title for name, (_, title) in PAPERS.items()}) in text
