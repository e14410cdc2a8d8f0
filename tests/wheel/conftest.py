"""The wheel, which each test process builds once."""

import os
from pathlib import Path

import pytest

from tests.wheel.environments import build

collect_ignore = ["job.py", "query.py"]  # not tests: users' programs
if not os.environ.get("SPARKS"):
    collect_ignore.append("test_sparks.py")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    return build(tmp_path_factory.mktemp("wheel"))
