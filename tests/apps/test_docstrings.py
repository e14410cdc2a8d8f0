"""The examples in docstrings that need Spark hold. They have the session as ``spark``."""

import doctest
from importlib import import_module

import pytest

from tests.examples import with_examples

NAMES = list(with_examples(spark=True))


@pytest.mark.parametrize("name", NAMES)
def test_examples(spark, name):
    found = doctest.testmod(import_module(name), extraglobs={"spark": spark})
    assert found.failed == 0
    assert found.attempted > 0
