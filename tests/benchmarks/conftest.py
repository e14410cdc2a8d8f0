"""The benchmarks are for developers, so their tests are nightly ones, but for the one that imports them."""

from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.name != "test_imports.py":
            item.add_marker(pytest.mark.nightly(group="engines"))
