"""CLUSTER mode on YARN, in client mode, with the checkpoint on its HDFS: executors die, the counts are exact."""

import os
import random
import signal
import sys
import sysconfig
import tarfile
from pathlib import Path

import psutil
import pytest

from tests.apps.stateful.sessions import ALWAYS, SESSIONS, require_exact
from tests.apps.stores.servers import Hadoop
from tests.conftest import SHORT_LIVED
from tests.harness.topology import Topology, check, launch, truth  # noqa: F401  fixtures
from tests.waiting import awaited
from unskew.apps.checkpoint.location import Location
from unskew.apps.checkpoint.plan_states import PlanStateLog
from unskew.apps.driver.plans.planner import FOLDER
from unskew.deploy.installation.jars import pyspark_home
from unskew.deploy.installation.machine import find_java
from unskew.loopback import LOOPBACK

pytestmark = [
    pytest.mark.nightly(group="clusters"),
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("cluster"),
]

KILLS = 4


#: One to three executors, as Spark finds that it needs them, where `options` has two.
ALLOCATED = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",  # there is no shuffle service
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.initialExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": "3",
    "spark.dynamicAllocation.executorIdleTimeout": "5s",
    "spark.dynamicAllocation.shuffleTracking.timeout": "5s",
    "spark.executor.instances": "1",  # more than initialExecutors would be taken instead
}


def options(**settings: str) -> list[str]:
    """Two small executors on this machine."""
    variables = {"JAVA_HOME": str(find_java().home), "SPARK_LOCAL_IP": LOOPBACK}
    conf = {
        # The nodes have Spark's archives already: 300 MB that needn't go through HDFS.
        "spark.yarn.jars": f"local:{pyspark_home()}/jars/*",
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.executor.instances": "2",
        "spark.executor.cores": "2",
        "spark.executor.memory": "512m",
        "spark.executor.memoryOverhead": "256m",
        "spark.executor.extraJavaOptions": SHORT_LIVED,
        "spark.executor.maxNumFailures": "100",
        "spark.yarn.am.memory": "256m",
        "spark.yarn.am.memoryOverhead": "128m",
        "spark.yarn.am.extraJavaOptions": SHORT_LIVED,
        "spark.yarn.scheduler.heartbeat.interval-ms": "300",
        **{f"spark.executorEnv.{name}": value for name, value in variables.items()},
        **{f"spark.yarn.appMasterEnv.{name}": value for name, value in variables.items()},
        **settings,
    }
    return ["--master", "yarn", *(f"--conf={name}={value}" for name, value in conf.items())]


def bare_python(path: Path) -> Path:
    """A Python of the nodes' own: it has the libraries, but not this project."""
    libraries = sysconfig.get_paths()["purelib"]
    path.parent.mkdir(parents=True)
    # -S: the files that put an editable checkout on the path are not read
    path.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{libraries}" exec {sys.executable} -S "$@"\n')
    path.chmod(0o755)
    return path


def kill_executors(topology: Topology, hadoop: Hadoop, seed: int) -> None:
    """Kill executors in the middle of batches; each time another batch is committed before the next."""
    rng = random.Random(seed)
    pythons: set[bool] = set()
    for _ in range(KILLS):
        topology.await_batches(1, longer=rng.random())
        pythons |= {"-S" in python.cmdline() for executor in hadoop.executors() for python in pythons_of(executor)}
        victim = rng.choice(awaited(hadoop.executors, "an executor"))
        os.kill(victim.pid, signal.SIGKILL)
    assert pythons == {True}, "the executors ran another Python than the nodes' own"


def pythons_of(executor: psutil.Process) -> list[psutil.Process]:
    try:
        return [each for each in executor.children() if "unskew.apps.driver.python_daemon" in each.cmdline()]
    except psutil.Error:
        return []


@pytest.mark.takes(150)
@pytest.mark.parametrize("allocated", [{}, ALLOCATED], ids=["two executors", "dynamic allocation"])
def test_counts_with_an_environment_that_travels_as_an_archive(
    allocated, hdfs, connection, topic, tmp_path, truth, launch, seed
):
    """The executors' sources reach the planner, which answers them wave by wave."""
    bare_python(tmp_path / "environment" / "bin" / "python")
    with tarfile.open(tmp_path / "environment.tar.gz", "w:gz") as packed:
        packed.add(tmp_path / "environment" / "bin", "bin")
    conf = options(
        **{
            "spark.archives": f"{tmp_path}/environment.tar.gz#environment",
            "spark.pyspark.python": "./environment/bin/python",
            **allocated,
        }
    )
    environment = {"HADOOP_CONF_DIR": str(hdfs.yarn())}
    location = hdfs.location(topic)
    topology = launch(
        "PLANNED", *conf, "--max-tuples", "1000", mode="CLUSTER", location=location, environment=environment
    )
    kill_executors(topology, hdfs, seed)
    topology.await_end()
    check(connection, topic, "pl", truth)
    assert Location.of(location).folder(*FOLDER).names(), "no planner has planned a batch"


@pytest.mark.takes(200)
def test_states_with_the_python_that_the_nodes_have(hdfs, connection, topic, tmp_path, truth, launch, seed):
    """Nobody says which: it is called python3 at the nodes, and at the driver, where Spark plans the batches."""
    bare_python(hdfs.programs / "python3")
    environment = {"HADOOP_CONF_DIR": str(hdfs.yarn())}
    location = hdfs.location(topic)
    topology = launch(
        *("MIXED", *options(), "--max-tuples", "1000", "--conf", "spark.sql.shuffle.partitions=3", *SESSIONS, *ALWAYS),
        mode="CLUSTER",
        location=location,
        environment=environment,
    )
    kill_executors(topology, hdfs, seed)
    topology.await_end()
    require_exact(connection, topic, truth)
    assert PlanStateLog(location).newest().active.number > 1, "a run in which no keys move would prove nothing"
