"""Spark's Python processes: interpreter, first start, and search path at the executors."""

import os
import re
import shlex
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from unskew.apps.driver.python_version import OWN_VERSION, VERSION
from unskew.apps.driver.shipping import ARCHIVE
from unskew.directories import data_directory
from unskew.errors import EnvironmentFault, UsageError
from unskew.spark.compat import is_local

_SCRIPT = """#!/bin/sh
# Spark puts its archives of pyspark and py4j first on the path. What comes from an archive is compiled in each process;
# the packages that are installed are the same, and are compiled already.
PYTHONPATH=${{PYTHONPATH#{archives}:}} exec {python} "$@"
"""
_PATH = "spark.executorEnv.PYTHONPATH"
_CHOSEN = ("spark.pyspark.python", "spark.executorEnv.PYSPARK_PYTHON")
_VARIABLE = "PYSPARK_PYTHON"
_BEGUN = "unskew.python"  # our setting: the session's Python has been started


def prepare_python() -> str:
    """The path of the Python that Spark starts on this machine: the running one, without Spark's archives on its path.

    It is a script in UNSKEW_HOME, with which a process starts half a second faster under Spark, or the interpreter
    itself if scripts can't run there. Spark starts one per session, and if workers keep states also one per batch, to
    plan ``transformWithState``.
    """
    installed = Path(pyspark.__file__).resolve().parent  # Spark's path has links resolved
    archives = sorted((installed / "python" / "lib").glob("*.zip"), reverse=True)  # like Spark
    script = _SCRIPT.format(archives=shlex.quote(":".join(map(str, archives))), python=shlex.quote(sys.executable))
    path = data_directory() / f"python-{sha256(script.encode()).hexdigest()[:12]}"
    if not path.is_file() or path.read_text() != script:  # a crash may have left part of it
        path.parent.mkdir(parents=True, exist_ok=True)
        own = path.with_suffix(f".{os.getpid()}")  # another process may write it meanwhile
        own.write_text(script)
        own.chmod(0o755)
        own.rename(path)
    return str(path) if os.access(path, os.X_OK) else sys.executable


def choose_task_python(master: str, conf: Mapping[str, str]) -> str:
    """The Python that Spark starts for tasks: the user's choice, or one that the master's machines have.

    ``spark.pyspark.python`` has precedence over ``spark.executorEnv.PYSPARK_PYTHON``, which has precedence over the
    environment's ``PYSPARK_PYTHON``. It is a path, or for YARN and Kubernetes a name, because their containers don't
    have this machine's paths.
    """
    said = next(filter(None, [*map(conf.get, _CHOSEN), os.environ.get(_VARIABLE)]), None)
    if said is not None:
        return said
    if master.startswith("local"):
        return prepare_python()
    return sys.executable if master.startswith("spark://") else "python3"


@contextmanager
def use_driver_python() -> Iterator[None]:
    """Let a JVM started in the block use our Python where it would only know a name."""
    before = {name: os.environ.get(name) for name in (_VARIABLE, "PATH")}
    os.environ |= {_VARIABLE: before[_VARIABLE] or prepare_python(), "PATH": _make_search_path()}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _make_search_path() -> str:
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def require_python(spark: SparkSession, *, states: bool) -> None:
    """Start the executors' Python in a task on each core, to check its version and libraries.

    Raises ``UsageError`` if the run has states, and the driver's machine lacks this Python, with which Spark plans
    batches; ``EnvironmentFault`` if a task failed.
    """
    from py4j.protocol import Py4JJavaError

    chosen = spark.sparkContext.pythonExec
    if states and shutil.which(chosen, path=_make_search_path()) is None:
        raise UsageError(
            f"the executors' Python is {chosen}; Spark plans batches with states by the same on the driver's machine, "
            "and it isn't there; valid: a path that is there too (a link to the driver's Python), or a name, as python3"
        )
    cores = spark.sparkContext.defaultParallelism
    try:
        spark.sparkContext.parallelize(range(cores), cores).foreach(lambda _: None)
    except Py4JJavaError as error:
        raise EnvironmentFault(
            f"executors can't run tasks by their Python, {chosen} ({_find_reason(str(error))}); it must be Python "
            f"{OWN_VERSION}, as the driver's, with the libraries of requirements.lock; --conf {_CHOSEN[0]}=… chooses it"
        ) from error


def _find_reason(error: str) -> str:
    """The executor's error in a line: the last of its Python's output, or of Spark's."""
    said = re.search(r"Error from python worker:\n(.*?)\n *PYTHONPATH was:", error, re.DOTALL)
    lines = (
        said[1].strip().splitlines() if said else re.findall(r"Cannot run program .+|\w+(?:Exception|Error): .+", error)
    )
    return lines[-1].strip() if lines else error.strip().splitlines()[0]


def make_archive_settings(conf: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings with which executors' Pythons import our package from the archive before their first task.

    The executors' Python has the libraries, but not our package. The user's path in ``conf`` comes after it.
    """
    path = os.pathsep.join([ARCHIVE, *filter(None, [conf.get(_PATH)])])
    return {_PATH: path, f"spark.executorEnv.{VERSION}": OWN_VERSION}


def start_python(spark: SparkSession) -> None:
    """Start Spark's Python daemon, from which Python workers fork, while the first query is planned.

    Without this, the first batch waits a second or more for the daemon, on one core. Only a session's first call starts
    it, and only if Spark runs on this machine: a cluster's executors each have a daemon. The call doesn't wait for the
    daemon, and ignores its errors.
    """
    if is_local(spark) and spark.conf.get(_BEGUN, None) is None:
        spark.conf.set(_BEGUN, "true")
        threading.Thread(target=_run_task, args=[spark], daemon=True, name="early Python").start()


def _run_task(spark: SparkSession) -> None:
    with suppress(Exception):  # the run's tasks get the same error, which the run reports; or the run has ended
        spark.range(1, numPartitions=1).mapInArrow(lambda batches: batches, "id long").collect()
