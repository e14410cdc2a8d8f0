"""`unskew reproduce` as users call it."""

import pytest
from typer.testing import CliRunner

from reproduction.command import PAPERS
from unskew.apps.cli import app
from unskew.errors import UserError


def run(*arguments):
    return CliRunner().invoke(app, ["reproduce", *arguments])


def test_list():
    result = run("--list")
    assert result.exit_code == 0, result.output
    names = result.output.split()
    assert {name.partition("/")[0] for name in names} == set(PAPERS)
    assert {"pkg/table-2", "mixed/figure-4", "posg/theorem-4.3", "dpa/table-1", "dkg/skew"} <= set(names)


def test_one_experiment(tmp_path):
    result = run("posg/theorem-4.3", "--scale", "0.05", "--output", str(tmp_path))
    assert result.exit_code == 0, result.output
    for part in ("32.08", "32.92", "32.085", "32.915"):
        assert part in result.output
    assert (tmp_path / "posg-theorem-4.3.csv").exists()
    assert "POSG, Theorem 4.3" in (tmp_path / "README.md").read_text()


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
