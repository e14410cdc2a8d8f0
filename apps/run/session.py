"""The Spark session of a topology: jars, Python, logging, and the settings that matter for it."""

import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from unskew.apps.checkpoint.place import Place
from unskew.apps.run import shipping
from unskew.apps.run.jvm import lasting
from unskew.apps.run.python import python
from unskew.apps.run.stores import jars_for, settings_for
from unskew.apps.topology.portions import MOST_ROWS, ROWS
from unskew.apps.topology.settings import Settings
from unskew.deploy.home import home
from unskew.deploy.installation import class_data
from unskew.deploy.installation.jars import connector_jars
from unskew.deploy.installation.java import find_java
from unskew.errors import EnvironmentFault
from unskew.grouping import warm

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Windows, results and their text are UTC wherever the driver runs.
    "spark.sql.session.timeZone": "UTC",
    # State per (window, key, worker) may be larger than memory.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Larger Arrow batches cost less a tuple: fewer changes between JVM and Python, larger packets.
    ROWS: str(MOST_ROWS),
    "spark.sql.streaming.numRecentProgressUpdates": "20",
}


# The state's partitions are fixed when a checkpoint is made; each costs every batch a commit of some 50 ms.
_PARTITIONS = "spark.sql.shuffle.partitions"
_LEAST_PARTITIONS = 4
# States per key: a batch needn't know how many there are, and to count them makes a write 2.5 times as dear.
_STATES = {"spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false"}
# Simulated cost is slept, so tasks may outnumber cores; but each has a Python process.
_MOST_TASKS = 128
# Python workers fork from it with our imports done.
_OUR_DAEMON = {"spark.python.daemon.module": "unskew.apps.run.daemon"}
# As on a cluster: a Python worker that dies costs its task an attempt, not the run.
_ATTEMPTS = 4


@contextmanager
def session(settings: Settings, groupings: Sequence[str] = ()) -> Iterator[SparkSession]:
    """The Spark session of a run, or of several with these groupings; stopped at the end.

    In LOCAL mode there is a thread for each worker if tuples have a simulated cost (they wait side by side), else two a
    core (while one task waits for its Python process, another runs). In CLUSTER mode our code goes to the executors.
    """
    side_by_side = max(settings.workers, settings.sources) if settings.cost.mean else 2 * (os.cpu_count() or 1)
    master = settings.master or f"local[{min(side_by_side, _MOST_TASKS)},{_ATTEMPTS}]"
    names = groupings or [settings.grouping]
    conf = {
        "spark.executorEnv.UNSKEW_GROUPINGS": ",".join(names),
        **(_STATES if settings.states else {}),
        **settings.conf,
        **({**_OUR_DAEMON, **shipping.path(settings.conf)} if settings.mode == "CLUSTER" else {}),
    }
    # While the JVM starts: a cold compilation once here, not in every Python worker side by side.
    with ThreadPoolExecutor(1) as pool:
        warmed = pool.submit(lambda: [warm(name) for name in names])
        spark = start(settings.name, master, _LEAST_PARTITIONS, conf, settings.place)
        if _PARTITIONS not in conf:
            spark.conf.set(_PARTITIONS, _partitions(settings, spark))
        warmed.result()
    with TemporaryDirectory(prefix="unskew-") as folder, lasting(spark, log_file()):
        if settings.mode == "CLUSTER":
            # Executors fetch it when they need it, late ones too.
            spark.sparkContext.addPyFile(str(shipping.pack(Path(folder))))
        yield spark


def _partitions(settings: Settings, spark: SparkSession) -> int:
    """How many partitions the state of a new checkpoint has."""
    if settings.state_partitions is not None:
        return settings.state_partitions
    if settings.states and settings.cost.mean:
        # Workers are groups of the state's partitions, and wait side by side only in different ones.
        return min(settings.workers, _MOST_TASKS)
    local = settings.mode == "LOCAL"
    cores = (os.cpu_count() or 1) if local else spark.sparkContext.defaultParallelism
    return min(max(cores, _LEAST_PARTITIONS), _MOST_TASKS)


def log_file() -> Path:
    """Where Spark's own log of this process goes."""
    return home() / "logs" / f"spark-{os.getpid()}.log"


def start(
    name: str, master: str, partitions: int, conf: Mapping[str, str] | None = None, place: Place | None = None
) -> SparkSession:
    """Start Spark.

    Parameters
    ----------
    name : str
        The application's name.
    master : str
        ``local[N]`` or a cluster's URL.
    partitions : int
        Partitions of the windowed state: fixed once a checkpoint is made.
    conf : mapping, optional
        Any Spark settings; they win over ours.
    place : Place, optional
        Where checkpoints lie; without it, among this machine's files.

    Raises
    ------
    EnvironmentFault
        No usable Java, no jars, or the master can't be reached.

    """
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    local = master.startswith("local")
    # Workers must run the interpreter that has our packages, not the first "python3" on the path.
    os.environ.setdefault("PYSPARK_PYTHON", python() if local else sys.executable)
    os.environ.setdefault(
        "SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    )  # it puts a command together
    log = log_file()
    log.parent.mkdir(parents=True, exist_ok=True)
    settings = {
        **_SETTINGS,
        **settings_for(place or Place("")),
        "spark.jars": ",".join(map(str, connector_jars() + (jars_for(place) if place is not None else []))),
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.driver.extraJavaOptions": " ".join(
            [f"-Dlog4j2.configurationFile={_log_settings()}", f"-Dunskew.log={log}", *class_data.options("spark")]
        ),
        "spark.driver.memory": "2g",
        **(_OUR_DAEMON if local else {}),
        **(conf or {}),
    }
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        with _stderr_to(log), _own_interrupt():
            return builder.getOrCreate()
    except Exception as error:
        raise EnvironmentFault(f"Spark did not start on {master} ({_first_line(error)}); its log: {log}") from error


@contextmanager
def _own_interrupt() -> Iterator[None]:
    """Keep what Ctrl-C means: pyspark takes it for itself, to cancel jobs in the middle."""
    ours = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, ours)


@contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Let processes started meanwhile write to the log what they'd write to the terminal: the JVM's notices."""
    sys.stderr.flush()
    terminal = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)


def _log_settings() -> Path:
    return Path(__file__).with_name("log4j2.properties")


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
