"""A Spark standalone cluster of two workers, and what a command needs to run there."""

import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import SHORT_LIVED
from unskew.deploy.servers.spark_cluster import SparkCluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("cluster"), workers=2, cores=2) as started:
        yield started


def program(path: Path, *lines: str) -> Path:
    """A shell script."""
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


def conf_of(cluster: SparkCluster, python: Path) -> list[str]:
    settings = cluster.conf | {
        "spark.pyspark.python": str(python),
        "spark.executor.extraJavaOptions": f"{SHORT_LIVED} {cluster.conf['spark.executor.extraJavaOptions']}",
    }
    return ["--master", cluster.master, *(f"--conf={key}={value}" for key, value in settings.items())]


@pytest.fixture
def options(cluster: SparkCluster, tmp_path: Path) -> list[str]:
    """The executors' Python has the libraries but not this project: what they run was shipped to them."""
    libraries = sysconfig.get_paths()["purelib"]
    # -S: the files that put an editable checkout on the path are not read
    run = f'PYTHONPATH="$PYTHONPATH:{libraries}" exec {sys.executable} -S "$@"'
    return conf_of(cluster, program(tmp_path / "python", f"touch {tmp_path}/was-run", run))
