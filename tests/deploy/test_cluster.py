"""A real standalone cluster; each job is a driver process of its own."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.conftest import SHORT_LIVED
from tests.waiting import PATIENCE, awaited, gone
from unskew.deploy.installation.machine import find_java
from unskew.deploy.servers.spark_cluster import SparkCluster

pytestmark = [pytest.mark.nightly(group="clusters"), pytest.mark.spark, pytest.mark.slow]

# Counts in four tasks, each in Python and not done before a file exists, and says which Python it was.
JOB = """
import json, sys
from pyspark.sql import SparkSession
master, conf, go = json.loads(sys.argv[1])
builder = SparkSession.builder.master(master).config(map={**conf, "spark.ui.enabled": "false"})
def task(rows):
    import sys, time
    from pathlib import Path
    while not Path(go).exists():
        time.sleep(0.1)
    yield sys.executable, sum(rows)
with builder.getOrCreate() as spark:
    parts = spark.sparkContext.parallelize(range(1000), 4).mapPartitions(task).collect()
    print(json.dumps([sorted({python for python, _ in parts}), sum(total for _, total in parts)]))
"""


class Job:
    def __init__(self, cluster: SparkCluster, directory: Path) -> None:
        self.go = directory / "go"
        self.log = directory / "driver.log"
        environment = {**os.environ, "JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable}
        options = f"{SHORT_LIVED} {cluster.conf['spark.executor.extraJavaOptions']}"
        conf = cluster.conf | {"spark.executor.extraJavaOptions": options}
        arguments = json.dumps([cluster.master, conf, str(self.go)])
        with self.log.open("w") as log:
            self.driver = subprocess.Popen(
                [sys.executable, "-c", JOB, arguments], env=environment, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def runs(self) -> bool:
        return self.driver.poll() is None

    def result(self) -> list:
        output, _ = self.driver.communicate(timeout=PATIENCE)
        assert self.driver.returncode == 0, self.log.read_text()
        return json.loads(output)


def test_a_job_runs_with_our_python_and_survives_a_killed_executor_and_a_killed_worker(tmp_path):
    with SparkCluster(tmp_path / "cluster", workers=2, memory_mb=512) as cluster:
        job = Job(cluster, tmp_path)

        def executors(other_than: set[int]) -> set[int]:
            assert job.runs(), job.log.read_text()
            return set(cluster.executors()) - other_than

        awaited(lambda: len(executors(set())) == 2, "two executors")
        first = executors(set())
        os.kill(min(first), signal.SIGKILL)
        awaited(lambda: executors(first), "another executor in its place")
        cluster.kill_worker(1)
        cluster.add_worker()
        awaited(lambda: len(executors(set())) == 2, "an executor on the new worker")
        job.go.touch()
        assert job.result() == [[sys.executable], sum(range(1000))]


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's parent-death signal")
def test_nothing_is_left_when_the_parent_is_killed(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from unskew.deploy.servers.spark_cluster import SparkCluster;"
        "cluster = SparkCluster(Path(sys.argv[1]), workers=1, memory_mb=512); cluster.start();"
        "print(cluster._master.pid, cluster._workers[0].pid, flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert all(map(psutil.pid_exists, pids))
    parent.kill()
    parent.communicate()
    assert all(map(gone, pids))
