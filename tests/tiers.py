"""Parameters of tests that other tiers run than the test's own (see CONTRIBUTING.md)."""

from collections.abc import Container, Iterable
from typing import Any

import pytest


def nightly(group: str, *values: Any) -> list[Any]:
    """Parameters of which only a group of the nightly tests runs the test: a value each, or a tuple of several."""
    return [_mark(each, pytest.mark.nightly(group=group)) for each in values]


def nightly_but(first: Container[Any], values: Iterable[Any], group: str) -> list[Any]:
    """All values as parameters, of which the first tier runs these, and a group of the nightly tests the others."""
    return [each if each in first else _mark(each, pytest.mark.nightly(group=group)) for each in values]


def _mark(value: Any, mark: pytest.MarkDecorator) -> Any:
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=mark)
