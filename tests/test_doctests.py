"""The examples in docstrings hold, in all packages."""

import doctest
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOMS = ("apps", "dashboards", "deploy", "grouping", "producers", "works")
PACKAGES = ("unskew", *(f"unskew.{room}" for room in ROOMS), "reproduction")


def with_examples() -> Iterator[str]:
    for package in map(import_module, PACKAGES):
        for folder in package.__path__:
            found = Path(folder)
            for file in sorted(found.rglob("*.py")):
                if ">>>" in file.read_text():
                    place = file.relative_to(found).with_suffix("")
                    yield ".".join([package.__name__, *(part for part in place.parts if part != "__init__")])


@pytest.mark.parametrize("name", list(with_examples()))
def test_examples(name):
    assert doctest.testmod(import_module(name)).failed == 0
