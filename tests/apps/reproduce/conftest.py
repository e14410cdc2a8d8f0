from pathlib import Path

import pytest

from tests.evidence import mark_nightly


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_nightly(items, Path(__file__).parent)
