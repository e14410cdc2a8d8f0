"""The column of differences between the papers' figures and ours."""

import re

import pytest

from evidence.papers.agreement import NONE, Table, compared_cells
from evidence.papers.difference import relative, with_differences
from tests.pages import ROOT

FOLDER = ROOT / "evidence/papers/tables"


def table(name, columns, *rows):
    return Table(name, "", tuple(columns.split("|")), tuple(tuple(row.split("|")) for row in rows))


@pytest.mark.parametrize(
    ("paper", "ours", "said"),
    [
        (100, 118, "+18 %"),
        (100, 99.9, "0 %"),
        (100, 51, "−49 %"),
        (100, 50, "÷ 2"),
        (100, 200, "× 2"),
        (100, 0, "−100 %"),
        (0, 0, "0 %"),
        (0, 3, "from 0"),
    ],
)
def test_in_percent_or_as_a_ratio(paper, ours, said):
    assert relative(paper, ours) == said


def test_numbers_stand_after_ours_and_words_before_the_reasons():
    imbalance = table("pkg/table-2", "data|paper|ours|messages|why they differ", "WP|0.02|0.03|7|a")
    section = "## T\n\n| data | paper | ours | messages | why they differ |\n| --- | --- | --- | --- | --- |\n"
    section += "| W\\|P | 0.02 | 0.03 | 7 | a |\n\nA note.\n"
    once = with_differences(section, imbalance)
    assert "| data | paper | ours | difference | messages | why they differ |\n" in once
    assert "| W\\|P | 0.02 | 0.03 | +50 % | 7 | a |\n\nA note.\n" in once
    assert with_differences(once, imbalance) == once
    words = table("pkg/threshold", "W|paper|floor|ours|why they differ", "5|balanced|0|0|agree")
    section = "| W | paper | floor | ours | why they differ |\n| --- | --- | --- | --- | --- |\n"
    section += "| 5 | balanced | 0 | 0 | agree |"
    assert with_differences(section, words).endswith("| 5 | balanced | 0 | 0 | none | agree |")


@pytest.mark.parametrize("folder", [FOLDER, FOLDER / "live"], ids=["simulated", "live"])
def test_the_committed_pages_have_it(folder):
    """Each table with a figure of the paper has the column, as its CSV gives it."""
    text, found = (folder / "README.md").read_text(encoding="utf-8"), 0
    for section in re.split(r"(?m)^(?=## )", text):
        if csv := re.search(r"\[As CSV\]\((.+?)\)", section):
            there = Table.read(folder / csv[1], "")
            assert with_differences(section, there) == section
            if any(verdict != NONE for _, verdict, _ in compared_cells(there)):
                assert "| difference |" in section, csv[1]
                found += 1
    assert found >= 3
