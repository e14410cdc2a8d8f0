"""What docs/operators.md shows is so."""

import re

import pytest

from tests.commands import unskew
from tests.pages import PAGES
from unskew.apps.operators.loader import import_operator

TEXT = PAGES["docs/operators.md"].read_text()
CODE = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the modules of the examples, in which commands run."""
    (tmp_path / "orders.py").write_text(next(code for code in CODE if "class Largest" in code))
    (tmp_path / "stock.py").write_text(next(code for code in CODE if "PerKey(" in code))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_the_vectorised_example(folder):
    shown = re.search(r"\$ unskew check-work orders:Largest\n(.*?)\n\n", TEXT, re.DOTALL)
    assert shown
    done = unskew("check-work", "orders:Largest")
    assert done.stdout.splitlines() == [line.removeprefix("    ") for line in shown[1].splitlines()]


def test_the_plain_example(folder):
    done = unskew("check-work", "stock:stock", "--column", "amount=int64", "--cases", "60")
    assert (done.returncode, done.stderr) == (0, "")
    assert "FAILS" not in done.stdout


def test_the_tables_works_have_its_options():
    named = re.findall(r"^\| `(\w+)` \|.*\|(.*)\|.*(yes|no)\b", TEXT, re.MULTILINE)
    for name, options, split in named:
        work = import_operator(f"unskew.operators:{name}", {})
        assert work.mergeable == (split == "yes")
        assert all(
            hasattr(work, "__init__") and option in type(work).__init__.__code__.co_varnames
            for option in re.findall(r"`(\w+)`", options)
        )
    assert named
