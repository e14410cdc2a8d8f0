"""Stores that aren't this machine's disk, started once for the tests of a process."""

from collections.abc import Iterator

import pytest

from tests.apps.stores.servers import S3, Hdfs

_PATIENCE = 300  # s; they are Java, and the machine may be busy


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    server = S3(tmp_path_factory.mktemp("s3"))
    server.start(timeout=_PATIENCE)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    server = Hdfs(tmp_path_factory.mktemp("hdfs"))
    server.start(timeout=_PATIENCE)
    yield server
    server.stop()
