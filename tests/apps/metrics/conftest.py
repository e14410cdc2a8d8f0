from collections.abc import Iterator

import pytest

from unskew.apps.metrics.outputs import Destinations, Outputs


@pytest.fixture
def outputs() -> Iterator[Outputs]:
    """A page for Prometheus, and nothing else."""
    with Outputs(Destinations(prometheus_port=0)) as started:
        yield started
