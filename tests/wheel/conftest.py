"""The wheel, which each test process builds once."""

from pathlib import Path

import pytest

from tests.wheel.environments import build

collect_ignore = ["job.py"]  # not a test: a user's program


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    return build(tmp_path_factory.mktemp("wheel"))
