"""A Spark standalone cluster on this machine, from pip's pyspark, to try and test CLUSTER mode."""

import os
import secrets
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

from unskew.deploy.installation import class_data
from unskew.deploy.installation.jars import pyspark_home
from unskew.deploy.installation.machine import find_java
from unskew.deploy.servers.process import ChildProcess
from unskew.directories import data_directory
from unskew.errors import EnvironmentFault
from unskew.file_locks import is_locked, lock_and_rename, write_private
from unskew.loopback import LOOPBACK, fetch_response, free_port

_PATIENCE = 300.0  # seconds until all workers are registered; a busy machine needs a minute


#: The environment variable in which Spark looks for the secret first.
SECRET = "_SPARK_AUTH_SECRET"  # noqa: S105  its name
#: Spark's settings for processes with the secret in the environment.
AUTHENTICATED = {
    "spark.authenticate": "true",
    # A driver must have a value here, which the variable overrides, because other users see the driver's command line.
    "spark.authenticate.secret": SECRET,
}
# What the master offers everybody over HTTP: starting programs, and ending applications.
_CLOSED = {"spark.master.rest.enabled": "false", "spark.ui.killEnabled": "false"}


class SparkCluster:
    """A master and workers on the loopback interface, which as a context manager run inside the block.

    They end with this process, however it ends.

    Clients need a secret, which is the same for all clusters of this process. From the start on, this process and its
    drivers have it in their environment. Other processes of the same user find it in `secret_file`.

    The directory has the logs of master, workers and executors, and the executors' files. A worker runs so many tasks
    in parallel as it has cores. The memory is that of a worker's executors, MiB, which `spark.executor.memory` must not
    exceed.

    Examples
    --------
    >>> from pyspark.sql import SparkSession
    >>> with SparkCluster(Path("out/cluster"), workers=2) as cluster:  # doctest: +SKIP
    ...     builder = SparkSession.builder.master(cluster.master).config(map=cluster.conf)
    """

    def __init__(self, directory: Path, *, workers: int = 2, cores: int = 1, memory_mb: int = 1024) -> None:
        self.directory = directory.absolute()
        self.master = f"spark://{LOOPBACK}:{free_port()}"
        self._first = workers
        self._cores = cores
        self._memory_mb = memory_mb
        self._ui = free_port()
        self._master: ChildProcess | None = None
        self._workers: list[ChildProcess] = []
        self._launched = 0
        self._held: int | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def conf(self) -> dict[str, str]:
        """Spark's settings for a driver on this machine. Executors run this process's Python."""
        return {
            "spark.pyspark.python": sys.executable,
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.executor.memory": f"{self._memory_mb}m",
            "spark.executor.extraJavaOptions": " ".join(class_data.jvm_options("spark")),
            **AUTHENTICATED,
        }

    @property
    def secret_file(self) -> Path:
        """The file with the secret, readable by its owner, while the cluster runs."""
        return _secret_file(self.directory, self.master)

    @property
    def alive(self) -> bool:
        """Whether the master runs."""
        return self._master is not None and self._master.alive

    def start(self) -> None:
        """Start the master and the workers, and wait until all workers are registered.

        Raises ``EnvironmentFault`` if Java or pyspark is missing, or there is no answer in time.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EnvironmentFault(f"cannot write the cluster's logs to {self.directory}: {error.strerror}") from error
        port = self.master.rpartition(":")[2]
        os.environ.setdefault(SECRET, secrets.token_hex(32))
        self._write_secret()
        try:
            self._master = self._launch("master.Master", "master", "--port", port, "--webui-port", str(self._ui))
            for _ in range(self._first):
                self._workers.append(self._worker())
            self._await_workers()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Shut down the workers and the master."""
        for child in self._children():
            child.stop(patience=10)
        self._workers.clear()
        self._master = None
        if self._held is not None:
            self.secret_file.unlink(missing_ok=True)
            os.close(self._held)
            self._held = None

    def add_worker(self) -> None:
        """Start another worker, and wait until it is registered."""
        self._workers.append(self._worker())
        self._await_workers()

    def kill_worker(self, index: int) -> None:
        """Kill a worker and its executors, like a power cut. Later workers' indices decrease by one."""
        self._workers.pop(index).kill()

    def executors(self) -> list[int]:
        """The process ids of the running executors."""
        workers = {worker.pid for worker in self._workers}
        command = ["ps", "-axww", "-o", "pid=,ppid=,command="]  # ww: not cut to the terminal's width
        listed = subprocess.run(command, capture_output=True, text=True, check=True)
        rows = (line.split(maxsplit=2) for line in listed.stdout.splitlines())
        return [int(pid) for pid, parent, program in rows if int(parent) in workers and "ExecutorBackend" in program]

    def _write_secret(self) -> None:
        for left in self.directory.glob("*.secret"):
            if not is_locked(left):
                left.unlink(missing_ok=True)
        new = self.secret_file.with_suffix(".new")
        write_private(new, os.environ[SECRET])
        self._held = lock_and_rename(new, self.secret_file)

    def _worker(self) -> ChildProcess:
        name = f"worker-{self._launched}"
        self._launched += 1
        size = ("--cores", str(self._cores), "--memory", f"{self._memory_mb}m")
        work = ("--work-dir", str(self.directory / name))
        return self._launch("worker.Worker", name, "--port", "0", "--webui-port", "0", *size, *work, self.master)

    def _launch(self, main: str, name: str, *arguments: str) -> ChildProcess:
        spark = pyspark_home()
        command = [spark / "bin" / "spark-class", f"org.apache.spark.deploy.{main}", "--host", LOOPBACK, *arguments]
        environment = {
            "JAVA_HOME": str(find_java().home),
            "SPARK_HOME": str(spark),
            # A missing directory, instead of another Spark's on this machine. It is on the class path, and a class
            # archive fits only the class path that it was recorded with.
            "SPARK_CONF_DIR": str(self.directory / "none"),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_DAEMON_JAVA_OPTS": " ".join(
                [
                    os.environ.get("SPARK_DAEMON_JAVA_OPTS", ""),
                    "-Dspark.authenticate=true",
                    *(f"-D{name}={value}" for name, value in _CLOSED.items()),
                    *class_data.jvm_options("spark"),
                ]
            ),
            "PYSPARK_PYTHON": sys.executable,
        }
        return ChildProcess(command, self.directory / f"{name}.log", environment=environment)

    def _await_workers(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        while self._alive_workers() != len(self._workers):  # more until the master notices a loss
            if time.monotonic() > deadline or not all(child.alive for child in self._children()):
                raise EnvironmentFault(f"the Spark cluster did not start; see the logs in {self.directory}")
            time.sleep(0.1)

    def _children(self) -> list[ChildProcess]:
        return [*self._workers, *filter(None, [self._master])]

    def _alive_workers(self) -> int:
        try:
            return int(fetch_response(f"http://{LOOPBACK}:{self._ui}/json/", timeout=5)["aliveworkers"])
        except (OSError, TypeError):  # no answer, or text that isn't JSON
            return 0


def clusters_directory() -> Path:
    """The directory of the clusters that `unskew cluster` starts."""
    return data_directory() / "cluster"


def read_secret(master: str) -> str | None:
    """The secret of this master, or None if no `unskew cluster` of this user runs it."""
    file = _secret_file(clusters_directory(), master)
    return file.read_text() if master.startswith(f"spark://{LOOPBACK}:") and file.exists() and is_locked(file) else None


def _secret_file(directory: Path, master: str) -> Path:
    return directory / f"{master.rpartition(':')[2]}.secret"
