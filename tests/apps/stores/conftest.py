"""Stores that aren't this machine's disk, started once for the tests of a process."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.apps.stores.servers import S3, Azure, Google, Hadoop
from tests.programs import REQUIRED
from tests.programs.clouds import azurite, fake_gcs
from tests.waiting import PATIENCE
from unskew.errors import EnvironmentFault


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


@pytest.fixture(scope="session")
def gs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Google]:
    _require(fake_gcs)
    server = Google(tmp_path_factory.mktemp("google"))
    server.start(timeout=PATIENCE)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azure]:
    _require(azurite)
    server = Azure(tmp_path_factory.mktemp("azure"))
    server.start(timeout=PATIENCE)
    yield server
    server.stop()


def _require(program: Callable[[], Path]) -> None:
    try:
        program()
    except EnvironmentFault as fault:
        if REQUIRED:
            pytest.fail(str(fault))
        pytest.skip(str(fault))
