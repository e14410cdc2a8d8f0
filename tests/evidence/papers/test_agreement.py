"""How many figures agree with the papers': the rules, and that the committed page says what its tables do."""

import re

import pytest

from evidence.papers.agreement import (
    COMPARED,
    NEAR,
    PRINTED,
    SPEED_UP,
    TITLE,
    VERDICTS,
    Pair,
    compare_cells,
    summary,
)
from evidence.papers.command import LIVE, PAPERS, _chosen
from tests.evidence.papers.tables import FOLDERS, get_name, read_report

TABLES, LIVE_TABLES = ({get_name(file.name): read_report(file) for file in folder.glob("*.csv")} for folder in FOLDERS)


def counted(name, table):
    found = [verdict for verdict, _ in compare_cells(name, table)]
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


def test_every_experiment_with_results_is_counted():
    there = set(_chosen(list(PAPERS), list(PAPERS), "EXPERIMENTS"))
    assert there - set(COMPARED) == {"mixed/table-2"}, "parameters"
    assert set(TABLES) == there
    live = set(_chosen(LIVE, LIVE, "LIVE"))
    assert live <= set(COMPARED)
    assert set(LIVE_TABLES) == live


def test_tables_have_the_papers_column():
    for name, table in (TABLES | LIVE_TABLES).items():
        if name in COMPARED and any("paper" in column for column in table.columns):
            assert COMPARED[name].paper in table.columns, name


def test_no_committed_figure_differs_without_a_reason():
    assert not [name for name, table in (TABLES | LIVE_TABLES).items() if counted(name, table)[2]]


@pytest.mark.parametrize("folder", FOLDERS, ids=["simulated", "live"])
def test_the_committed_page_counts_its_tables(folder):
    text = (folder / "README.md").read_text(encoding="utf-8")
    titles = {csv: title for title, csv in re.findall(r"(?ms)^## ([^\n]+)\n(?:(?!^## ).)*?\[As CSV\]\((.+?)\)", text)}
    tables = {get_name(csv): read_report(folder / csv, title) for csv, title in titles.items()}
    assert len(tables) == len(list(folder.glob("*.csv")))
    assert text.count(f"## {TITLE}") == 1
    assert summary(tables, {name: title for name, (_, title) in PAPERS.items()}) in text
