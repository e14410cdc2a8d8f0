"""Every order of crash and replay that hypothesis finds: what is told is what one process with a dictionary tells."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.apps.keyed.protocol import Protocol
from unskew.apps.keyed import buckets


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Buckets of a few keys, so that they split and merge."""
    monkeypatch.setattr(buckets, "KEYS", 2)
    monkeypatch.setattr(buckets, "_SHRINK", 2)


def test_whatever_dies_and_whenever():
    # With `make test-fast`'s profile fewer, as everywhere.
    examples = 3 * settings.default.max_examples
    run_state_machine_as_test(
        Protocol,
        settings=settings(max_examples=examples, stateful_step_count=40, suppress_health_check=list(HealthCheck)),
    )
