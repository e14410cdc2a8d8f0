"""What tests of all areas share: one embedded broker per test process, and topic names that nobody else has."""

import re
import uuid
from collections.abc import Iterator

import pytest
from hypothesis import settings

from unskew.deploy.servers.broker import Broker

pytest_plugins = ["tests.servers"]

# No deadlines: a first call may compile, and the machine may be busy.
settings.register_profile("unskew", deadline=None)
settings.load_profile("unskew")


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running broker, shared by this process' tests: use `topic`, and start your own `Broker` to stop or kill it."""
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name of this test's own; the topic doesn't exist yet."""
    return f"{re.sub(r'[^A-Za-z0-9_-]', '-', request.node.name)[:60]}-{uuid.uuid4().hex[:8]}"
