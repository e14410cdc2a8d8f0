"""The column of differences between the papers' figures and ours."""

import re

import pytest

from evidence.papers.agreement import make_difference_column
from evidence.papers.difference import relative
from evidence.papers.page import Report
from tests.evidence.papers.tables import FOLDERS, get_name, read_report


def make_column(name, columns, row):
    return make_difference_column(name, Report("", columns.split("|"), [row.split("|")]))


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
    imbalance = make_column("pkg/table-2", "data|paper|ours|messages|why they differ", "WP|0.02|0.03|7|a")
    assert imbalance == (3, ["difference", "+50 %"])
    words = make_column("pkg/threshold", "W|paper|floor|ours|why they differ", "5|balanced|0|0|agree")
    assert words == (4, ["difference", "none"])
    assert make_column("mixed/figure-8", "workers|plan, ms", "5|1") is None


@pytest.mark.parametrize("folder", FOLDERS, ids=["simulated", "live"])
def test_the_committed_pages_have_it(folder):
    """Each table with a figure of the paper has the column, as its CSV gives it."""
    text, found = (folder / "README.md").read_text(encoding="utf-8"), 0
    for section in re.split(r"(?m)^(?=## )", text):
        if csv := re.search(r"\[As CSV\]\((.+?)\)", section):
            column = make_difference_column(get_name(csv[1]), read_report(folder / csv[1]))
            lines = [re.split(r" *(?<!\\)\| *", line) for line in section.split("\n") if line.startswith("| ")]
            if column is not None:
                assert [line[1 + column[0]] for line in lines] == [column[1][0], "---", *column[1][1:]], csv[1]
                found += 1
    assert found >= 3
