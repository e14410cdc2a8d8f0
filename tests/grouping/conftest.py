"""What the groupings' tests share."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def _compiled(kernels: None) -> None:
    """All kernels are compiled before the first test, so that no test waits for the compiler."""
