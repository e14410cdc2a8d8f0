"""Stores that aren't this machine's disk, started once for the tests of a process."""

from collections.abc import Iterator

import pytest

from tests.apps.stores.servers import S3, Hadoop
from tests.waiting import PATIENCE


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    server = S3(tmp_path_factory.mktemp("s3"))
    server.start(timeout=PATIENCE)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    server = Hadoop(tmp_path_factory.mktemp("hadoop"))
    server.start(timeout=PATIENCE)
    yield server
    server.stop()
