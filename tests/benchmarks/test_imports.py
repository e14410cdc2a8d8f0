"""Every benchmark can be loaded, and is listed: none of them runs in the tests."""

import importlib
import pkgutil
from pathlib import Path

import benchmarks
from benchmarks.__main__ import ALONE, BENCHMARKS


def test_every_benchmark_can_be_loaded(subtests):
    for module in pkgutil.walk_packages(benchmarks.__path__, "benchmarks."):
        if not module.name.endswith("__main__"):
            with subtests.test(module.name):
                importlib.import_module(module.name)


def test_all_that_can_be_run_are_listed():
    modules = pkgutil.iter_modules(benchmarks.__path__)
    files = {each.name: "/__main__.py" if each.ispkg else ".py" for each in modules if each.name != "__main__"}
    folder = Path(benchmarks.__path__[0])
    commands = {name for name, end in files.items() if "__main__" in folder.joinpath(name + end).read_text()}
    assert BENCHMARKS.keys() | ALONE == commands
