"""The examples in docstrings hold, in all packages. Those that need Spark: tests/apps/test_docstrings.py."""

import doctest
from importlib import import_module

import pytest

from tests.examples import with_examples


@pytest.mark.parametrize("name", list(with_examples(spark=False)))
def test_examples(name):
    assert doctest.testmod(import_module(name)).failed == 0
