"""Stores that aren't this machine's disk, started once for the tests of a process."""

from collections.abc import Iterator
from typing import TypeVar

import pytest

from tests.apps.stores.servers import S3, Azure, Google, Hadoop
from tests.programs import found
from tests.programs.packages import azurite, fake_gcs
from tests.waiting import PATIENCE
from unskew.deploy.servers.server import ServerProcess

S = TypeVar("S", bound=ServerProcess)


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    yield from _started(S3(tmp_path_factory.mktemp("s3")))


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    yield from _started(Hadoop(tmp_path_factory.mktemp("hadoop")))


@pytest.fixture(scope="session")
def gs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Google]:
    found(fake_gcs)
    yield from _started(Google(tmp_path_factory.mktemp("google")))


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azure]:
    found(azurite)
    yield from _started(Azure(tmp_path_factory.mktemp("azure")))


def _started(server: S) -> Iterator[S]:
    server.start(timeout=PATIENCE)
    yield server
    server.stop()
