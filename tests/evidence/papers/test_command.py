"""`python -m evidence.papers` as users call it, and the report of an experiment, printed and saved."""

import csv

import pytest
import typer
from typer.testing import CliRunner

from evidence.papers.command import LIVE, PAPERS, reproduce
from evidence.papers.mixed import LIVE as MIXED
from evidence.papers.page import Report
from evidence.papers.posg import LIVE as POSG
from tests.pictures import figures  # noqa: F401
from unskew.errors import UserError


def run(*arguments):
    app = typer.Typer()
    app.command()(reproduce)
    return CliRunner().invoke(app, [*arguments])


def test_list():
    result = run("--list")
    assert result.exit_code == 0, result.output
    names = result.output.split()
    assert {name.partition("/")[0] for name in names} == set(PAPERS)
    assert {"pkg/table-2", "mixed/figure-4", "posg/theorem-4.3", "dpa/table-1", "dkg/skew"} <= set(names)


def test_list_of_live_experiments():
    result = run("--live", "--list")
    assert result.exit_code == 0, result.output
    assert result.output.split() == [*(f"mixed/{name}" for name in MIXED), *(f"posg/{name}" for name in POSG)]
    assert set(LIVE) <= set(PAPERS)
    assert "unknown paper 'pkg'; valid with --live: mixed, posg" in str(run("pkg", "--live").exception)
    assert "mixed has no experiment 'figure-4'; valid: figure-13" in str(run("mixed/figure-4", "--live").exception)


def test_one_experiment(tmp_path):
    result = run("posg/theorem-4.3", "--scale", "0.05", "--output", str(tmp_path))
    assert result.exit_code == 0, result.output
    for part in ("32.08", "32.92", "32.085", "32.915"):
        assert part in result.output
    assert (tmp_path / "posg-theorem-4.3.csv").exists()
    assert "POSG, Theorem 4.3" in (tmp_path / "README.md").read_text()


def test_remarks_in_common_stand_on_the_page_once(tmp_path):
    result = run("dkg/skew", "dkg/workers", "--scale", "0.001", "--output", str(tmp_path))
    assert result.exit_code == 0, result.output
    text = (tmp_path / "README.md").read_text()
    assert text.count("\n## DKG: measures and reasons\n") == 1
    assert text.count("See also [DKG: measures and reasons](#dkg-measures-and-reasons).") == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["sherlock"], "unknown paper 'sherlock'; valid: pkg"),
        (["pkg/table-9"], "pkg has no experiment 'table-9'; valid: table-2"),
        (["dpa", "--scale", "0"], "--scale is 0"),
        (["dpa", "--scale", "2"], "--scale is 2"),
    ],
)
def test_bad_arguments_are_named(arguments, says):
    result = run(*arguments)
    assert isinstance(result.exception, UserError)
    assert says in str(result.exception)


REPORT = Report(
    "A paper, Table 1",
    ("W", "paper", "ours", "why they differ"),
    [(5, 3.7e-8, 0.00012345, "agree"), (10, None, 2.0, None)],
    ["A note."],
    lambda figure: figure.subplots().plot([1, 2]),
)


def test_markdown():
    lines = REPORT.markdown("paper.png").splitlines()
    assert lines[0] == "## A paper, Table 1"
    assert lines[2:6] == [
        "| W | paper | ours | why they differ |",
        "| --- | --- | --- | --- |",
        "| 5 | 3.7e-08 | 0.000123 | agree |",
        "| 10 | – | 2 | – |",
    ]
    assert lines[-1] == "![A paper, Table 1](paper.png)"


def test_a_table_with_nothing_of_the_paper_is_a_picture_and_a_csv():
    report = Report("A paper, Figure 8", ("W", "ours"), [(5, 1.0)], ["A note."])
    text = "## A paper, Figure 8\n\nA note. [As CSV](paper.csv).\n\n![A paper, Figure 8](paper.png)\n"
    assert report.markdown("paper.png", "paper.csv") == text
    assert "| 5 | 1 |" in report.markdown(table="paper.csv")


def test_save(tmp_path, figures):
    files = REPORT.save(tmp_path / "new", "paper-table-1")
    assert [file.name for file in files] == ["paper-table-1.csv", "paper-table-1.png"]
    with files[0].open() as file:
        assert list(csv.reader(file)) == [
            ["W", "paper", "ours", "why they differ"],
            ["5", "3.7e-08", "0.00012345", "agree"],
            ["10", "", "2.0", ""],
        ]
    assert files[1].read_bytes().startswith(b"\x89PNG")
    (figure,) = figures
    assert figure.get_suptitle() == REPORT.title
    assert [list(line.get_ydata()) for line in figure.axes[0].lines] == [[1, 2]]
