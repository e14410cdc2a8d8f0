"""The services of `deploy/compose.yaml`, and the programs that run them without Docker."""

import pytest

from tests.deploy.composed import Service, composed
from tests.monitoring.conftest import influxd_program, prometheus_program  # noqa: F401


@pytest.fixture(scope="session")
def services() -> dict[str, Service]:
    """The stack's services with all variables at their defaults."""
    return composed()
