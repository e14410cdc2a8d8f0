"""Every benchmark can be loaded, and is listed: none of them runs in the tests."""

import importlib
import pkgutil
from pathlib import Path

import pytest

import benchmarks
from benchmarks.__main__ import ALONE, BENCHMARKS


@pytest.mark.parametrize(
    "name", [module.name for module in pkgutil.walk_packages(benchmarks.__path__, "benchmarks.")], ids=str
)
def test_a_benchmark_is_there(name):
    if not name.endswith("__main__"):
        importlib.import_module(name)


def test_all_that_can_be_run_are_listed():
    modules = pkgutil.iter_modules(benchmarks.__path__)
    files = {each.name: "/__main__.py" if each.ispkg else ".py" for each in modules if each.name != "__main__"}
    folder = Path(benchmarks.__path__[0])
    commands = {name for name, end in files.items() if "__main__" in folder.joinpath(name + end).read_text()}
    assert BENCHMARKS.keys() | ALONE == commands
