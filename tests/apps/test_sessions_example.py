"""examples/sessions.py is killed, again and again, and its rows are those of its topic. (On other versions of Spark:
`tests/wheel/test_sparks.py`.)
"""

import sys
from pathlib import Path

import pytest

from tests.apps.sessions_example import Example, require_each_session_once, send
from tests.commands import with_spark
from unskew.deploy.installation.jars import connector_jars

pytestmark = [pytest.mark.nightly(group="kills"), pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(1800)]


@pytest.fixture
def example(connection, topic, tmp_path):
    """The stream is in the topic before the example starts."""
    send(connection, topic)
    submit = Path(sys.executable).with_name("spark-submit")
    started = Example(submit, connector_jars(), with_spark(), connection.bootstrap_servers, topic, tmp_path)
    yield started
    if started.process.poll() is None:
        started.kill()


@pytest.mark.takes(120)
def test_each_session_is_written_once_whatever_is_killed(example, connection, topic, tmp_path, seed):
    require_each_session_once(example, connection, topic, tmp_path, seed)
