"""What the groupings' tests share."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def _compiled(kernels: None) -> None:
    """No test of these waits for a compiler in the middle."""
