"""Tests of what measures the product, and not of the product: they are nightly ones."""

from pathlib import Path

import pytest

from tests.apps.conftest import spark  # noqa: F401  a fixture


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put this folder's tests in the nightly group ``evidence``, but for those that take a moment."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.path.name != "test_imports.py":
            item.add_marker(pytest.mark.nightly(group="evidence"))
