"""Every benchmark can be loaded: none of them runs in the tests."""

import importlib
import pkgutil

import pytest

import benchmarks


@pytest.mark.parametrize(
    "name", [module.name for module in pkgutil.walk_packages(benchmarks.__path__, "benchmarks.")], ids=str
)
def test_a_benchmark_is_there(name):
    if not name.endswith("__main__"):
        importlib.import_module(name)
