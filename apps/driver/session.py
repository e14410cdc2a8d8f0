"""The Spark session of a run: its settings, its start, and its end, even if its JVM dies."""

import atexit
import logging
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from tempfile import gettempdir, mkdtemp

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from unskew.apps.checkpoint.location import Location
from unskew.apps.driver.jvm_options import MEMORY, add_java_options
from unskew.apps.driver.python_processes import (
    choose_task_python,
    make_archive_settings,
    require_python,
    use_driver_python,
)
from unskew.apps.driver.shipping import get_archive
from unskew.apps.settings import Settings
from unskew.apps.splitter.kafka_source import MOST_ROWS
from unskew.apps.worker.stage import WorkerStage
from unskew.apps.worker.stages import make_stage
from unskew.deploy.installation import class_data
from unskew.deploy.installation.jars import connector_jars, store_jars
from unskew.deploy.installation.machine import find_java
from unskew.deploy.servers.spark_cluster import AUTHENTICATED, SECRET, read_secret
from unskew.directories import data_directory
from unskew.errors import EnvironmentFault, UsageError
from unskew.file_locks import is_alive, is_locked, lock_and_rename
from unskew.grouping import warm_kernels
from unskew.loopback import LOOPBACK
from unskew.shown_keys import list_variables
from unskew.spark.compat import (
    choose_disk_manager,
    get_accumulator_server,
    get_java_session,
    get_jvm_process,
    is_remote,
)
from unskew.spark.setting_names import (
    CHANGELOG,
    DAEMON,
    MANAGER,
    OWN_DAEMON,
    PARTITIONS,
    PROVIDER,
    ROCKSDB,
    ROWS,
    TRACEBACK,
)

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Windows, results and their text are UTC wherever the driver runs.
    "spark.sql.session.timeZone": "UTC",
    # The state of all (window, key, worker) may be larger than memory.
    PROVIDER: ROCKSDB,
    CHANGELOG: "true",
    # Tasks with and without states share Python workers.
    TRACEBACK: "false",
    # Larger Arrow batches cost less a tuple: fewer changes between JVM and Python, larger packets.
    ROWS: str(MOST_ROWS),
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    # Spark's default, but for Kafka: the older source makes Java's timestamps of all, which have no year 294247.
    "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
}

# Of a checkpoint among this machine's files.
_FILE = {
    # Spark's default manager starts a process (`readlink`) for each file to see whether it is a link: some thirty a
    # batch, which cost a fifth of its time. This manager writes and renames the same files.
    MANAGER: choose_disk_manager(pyspark.__version__),
}
# Of a checkpoint on S3.
_S3A = {
    # Credentials come from the driver's environment, as Spark passes it on, then from AWS's usual sources. S3A's own
    # list of providers has neither AWS's files nor web identities.
    "spark.hadoop.fs.s3a.aws.credentials.provider": (
        "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider,"
        "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider,"
        "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
    ),
    # Spark's default manager writes a log under another name and renames it. S3 has no renaming: S3A copies and
    # removes, in some 20 requests. This manager writes the file at its own name by one PUT: all of it or nothing.
    MANAGER: "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager",
    # Spark looks whether a file exists before it writes it: S3A needn't look once more.
    "spark.hadoop.fs.s3a.performance.flags": "create",
}
# Of a checkpoint on Google's store.
_GS = {
    # From 3.5 on, Hadoop names its own connector for gs://, and has a size that Google's connector can't read.
    "spark.hadoop.fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFS",
    "spark.hadoop.fs.gs.block.size": str(64 << 20),
    # As our own client does by default. The connector would take the machine's account alone.
    "spark.hadoop.fs.gs.auth.type": "APPLICATION_DEFAULT",
}

# The state's partitions are fixed when a checkpoint is made; each costs every batch a commit of some 50 ms.
_LEAST_PARTITIONS = 4
# Simulated cost is spent asleep, so tasks may outnumber cores; but each task has a Python process.
_MOST_TASKS = 128
# Python workers fork from this module's process, which has imported what tasks need.
_OUR_DAEMON = {DAEMON: OWN_DAEMON}
# Spark makes up a secret for itself. Other users of this machine reach its ports, but don't know the secret.
_OWN_SECRET = {"spark.authenticate": "true"}
# As on a cluster: a Python worker that dies costs its task an attempt, not the run.
_ATTEMPTS = 4
# Logs of Spark that are kept, beside those of processes that run.
_LOGS = 20
_MADE = threading.Lock()  # held by the run that makes, or has made, this process' session
_TEMPORARY = "unskew-run-"
# The JVM's sockets close a moment before its process has ended.
_ENDS_WITHIN = 5.0  # s


@contextmanager
def open_session(settings: Settings, groupings: Sequence[str] = ()) -> Iterator[SparkSession]:
    """The Spark session of a run, or of several runs with these groupings. It is stopped at the end.

    In LOCAL mode, if tuples have a simulated cost, Spark has as many threads as workers, or as sources if these are
    more. So workers wait side by side. Otherwise it has two threads for each core, so that one task runs while another
    waits for its Python process. There are at most 128 threads. In CLUSTER mode, our package is sent to the executors.
    """
    side_by_side = max(settings.workers, settings.sources) if settings.cost.mean else 2 * (os.cpu_count() or 1)
    master = settings.master or f"local[{min(side_by_side, _MOST_TASKS)},{_ATTEMPTS}]"
    names = groupings or [settings.grouping]
    stage = make_stage(settings)
    conf = {
        "spark.executorEnv.UNSKEW_GROUPINGS": ",".join(names),
        **settings.conf,
        **({**_OUR_DAEMON, **make_archive_settings(settings.conf)} if settings.mode == "CLUSTER" else {}),
    }
    # While the JVM starts, the groupings are compiled once here, not in every Python worker side by side.
    with ThreadPoolExecutor(1) as pool:
        warmed = pool.submit(lambda: [warm_kernels(name) for name in names])
        spark = start_spark(settings.name, master, _LEAST_PARTITIONS, conf, settings.location)
        # Of the executors' Python. As settings, everybody would see the secret on the JVM's command line.
        spark.sparkContext.environment.update(list_variables())
        if PARTITIONS not in conf:
            spark.conf.set(PARTITIONS, _choose_partitions(stage, spark))
        warmed.result()
    with keep_session(spark, get_log_file()):
        _ship_package(spark, stage)
        yield spark


@contextmanager
def borrow_session(spark: SparkSession, settings: Settings) -> Iterator[SparkSession]:
    """A session beside the user's, in the same Spark, with a run's settings. The user's session stays as it is.

    Settings that only a new Spark can have are left as they are.

    Raises
    ------
    UsageError
        It is a session of Spark Connect, or its Spark lacks the Kafka connector.

    """
    if is_remote(spark):
        raise UsageError("a topology can't run in a session of Spark Connect; valid: one of classic PySpark, or none")
    stage, own = make_stage(settings), spark.newSession()
    ours = {
        **_SETTINGS,
        **_make_location_settings(settings.location),
        PARTITIONS: str(_choose_partitions(stage, own)),
    }
    for name, value in {**ours, **settings.conf}.items():
        if own.conf.isModifiable(name):
            own.conf.set(name, value)
    try:
        own.read.format("kafka").options(**settings.connection.spark(), subscribe=settings.topic).load()
    except AnalysisException as error:
        raise UsageError(
            "the session's Spark has no Kafka connector: make it with the setting spark.jars.packages="
            f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
        ) from error
    _ship_package(own, stage)
    yield own


def require_no_session() -> None:
    """Refuse to make a session where there is one, which it would be, and which would end with the run.

    Raises
    ------
    UsageError
        This process has a Spark session, or a run is about to make one.

    """
    # (`getActiveSession` is of this thread alone.)
    if SparkContext._active_spark_context is not None or _MADE.locked():  # noqa: SLF001
        raise _make_session_error()


def claim_session() -> None:
    """Note that a run makes this process' session. Raises as ``require_no_session``."""
    require_no_session()
    if not _MADE.acquire(blocking=False):  # another thread was faster
        raise _make_session_error()


def _make_session_error() -> UsageError:
    return UsageError("this process has a Spark session: start the topology in it, with spark=")


def release_session() -> None:
    """Let another run of this process make a session."""
    _MADE.release()


def _ship_package(spark: SparkSession, stage: WorkerStage) -> None:
    """Send our package to the executors, if they are other processes, and check their Python."""
    if stage.settings.mode == "CLUSTER":
        spark.sparkContext.addPyFile(str(get_archive(lambda: Path(mkdtemp(dir=_make_temporary_folder())))))
        require_python(spark, states=stage.keyed)


def _choose_partitions(stage: WorkerStage, spark: SparkSession) -> int:
    """How many partitions the state of a new checkpoint gets, unless the user's settings of Spark say it."""
    settings = stage.settings
    if stage.by_worker:
        return min(settings.workers, _MOST_TASKS)
    local = settings.mode == "LOCAL"
    cores = (os.cpu_count() or 1) if local else spark.sparkContext.defaultParallelism
    least = 1 if local else _LEAST_PARTITIONS
    return min(max(cores, least), _MOST_TASKS)


def get_log_file() -> Path:
    """The file of Spark's own log of this process."""
    return data_directory() / "logs" / f"spark-{os.getpid()}.log"


def start_spark(
    name: str, master: str, partitions: int, conf: Mapping[str, str] | None = None, location: Location | None = None
) -> SparkSession:
    """Start Spark.

    Parameters
    ----------
    name : str
        The application's name.
    master : str
        ``local[N]`` or a cluster's URL.
    partitions : int
        Number of partitions of the windowed state. It is fixed once a checkpoint is made.
    conf : mapping, optional
        Any Spark settings. They have precedence over ours.
    location : Location, optional
        The location of the checkpoint. Default: among this machine's files.

    Raises
    ------
    EnvironmentFault
        There is no usable Java, there are no jars, or the master can't be reached.

    """
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    local = master.startswith("local")
    # The user's own secret wins over the one of our cluster.
    secret = None if conf and not AUTHENTICATED.keys().isdisjoint(conf) else read_secret(master)
    # Of the JVM that only puts Spark's command line together: it is to start quickly.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    location = location or Location("")
    log = get_log_file()
    log.parent.mkdir(parents=True, exist_ok=True)
    _remove_old_logs(log.parent)
    settings = {
        **_SETTINGS,
        **_make_location_settings(location),
        "spark.jars": ",".join(map(str, connector_jars() + store_jars(location.scheme))),
        PARTITIONS: str(partitions),
        MEMORY: "2g",
        **(_OUR_DAEMON | _OWN_SECRET if local else {}),
        **(AUTHENTICATED if secret else {}),
        **add_java_options(conf or {}, _make_java_options(log), local=local),
    }
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        around = _bind_loopback() if local else _share_secret(secret) if secret else nullcontext()
        with _redirect_stderr(log), _keep_interrupt(), use_driver_python(), around:
            spark = builder.getOrCreate()
    except Exception as error:
        raise EnvironmentFault(f"Spark did not start on {master} ({_get_first_line(error)}); its log: {log}") from error
    # On the JVM's command line, where settings are, everybody would see the secrets.
    for each in location.secrets.items():
        get_java_session(spark).sparkContext().hadoopConfiguration().set(*each)
    # pyspark itself knows only the environment's PYSPARK_PYTHON, unless spark-submit has started the driver.
    spark.sparkContext.pythonExec = choose_task_python(master, dict(spark.sparkContext.getConf().getAll()))
    return spark


def _make_java_options(log: Path) -> list[str]:
    """The Java options that every driver needs."""
    return [
        f"-Dlog4j2.configurationFile={_find_log_settings()}",
        f"-Dunskew.log={log}",
        f"-Djava.io.tmpdir={_make_temporary_folder()}",
        *class_data.jvm_options("spark"),
    ]


def _remove_old_logs(folder: Path) -> None:
    """Remove the logs of processes that have ended, but for the newest."""
    with suppress(FileNotFoundError):  # another process removes them, too
        for old in sorted(folder.glob("spark-*.log*"), key=lambda path: path.stat().st_mtime)[:-_LOGS]:
            pid = old.name.removeprefix("spark-").partition(".")[0]
            if pid.isdigit() and not is_alive(int(pid)):
                old.unlink()


@cache
def _make_temporary_folder() -> Path:
    """The folder for the temporary files of this process and its JVM; it is removed when this process ends.

    Spark leaves files there when it is killed, and empty folders (``artifacts-…``) even when it isn't. The folders of
    processes that were killed are removed, too.
    """
    for left in Path(gettempdir()).glob(f"{_TEMPORARY}*"):
        if not is_locked(left):
            shutil.rmtree(left, ignore_errors=True)
    new = Path(mkdtemp(prefix=f".{_TEMPORARY}{os.getpid()}-"))
    folder = new.with_name(new.name.removeprefix("."))
    lock_and_rename(new, folder)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def _bind_loopback() -> Iterator[None]:
    """Let a JVM that is started meanwhile listen on this machine's own interface alone.

    By default Spark listens on the address by which other machines see this one. The variable is for its RPC, its
    blocks and its pages alike. Spark's settings (``spark.driver.host``) win over the variable.
    """
    if "SPARK_LOCAL_IP" in os.environ:  # the user's choice
        yield
        return
    os.environ["SPARK_LOCAL_IP"] = LOOPBACK
    try:
        yield
    finally:
        del os.environ["SPARK_LOCAL_IP"]


@contextmanager
def _share_secret(secret: str) -> Iterator[None]:
    """Let a JVM that is started meanwhile know a cluster's secret.

    Other users see the JVM's settings on its command line. They don't see its variables.
    """
    before = os.environ.get(SECRET)
    os.environ[SECRET] = secret
    try:
        yield
    finally:
        if before is None:
            del os.environ[SECRET]
        else:
            os.environ[SECRET] = before


@contextmanager
def _keep_interrupt() -> Iterator[None]:
    """Keep our handler of Ctrl-C: pyspark sets its own, which cancels jobs in the middle."""
    ours = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, ours)


@contextmanager
def _redirect_stderr(log: Path) -> Iterator[None]:
    """Send to the log what processes started meanwhile write to stderr: the JVM's notices."""
    sys.stderr.flush()
    terminal = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)


def _find_log_settings() -> Path:
    return Path(__file__).with_name("log4j2.properties")


def _get_first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _make_location_settings(location: Location) -> Mapping[str, str]:
    """Spark's settings for a checkpoint at the location; the user's settings win over them."""
    return {"file": _FILE, "s3a": _S3A, "gs": _GS}.get(location.scheme, {}) | location.spark


@contextmanager
def keep_session(spark: SparkSession, log_file: Path) -> Iterator[None]:
    """Use this session and stop it at the end. If its JVM dies, the user gets one line, and the log gets the rest.

    Raises
    ------
    EnvironmentFault
        The JVM died: it was killed, or was out of memory.

    """
    process: Popen[bytes] = get_jvm_process(spark)
    with _redirect_noise(log_file, spark):
        try:
            yield
        except (Py4JError, OSError) as error:
            status = _get_exit_status(process)
            if status is None:
                raise
            how = f"signal {-status}" if status < 0 else f"exit code {status}"
            raise EnvironmentFault(
                f"Spark's JVM died ({how}; was memory short?); start it again, a topology goes on from its checkpoint; "
                f"log: {log_file}"
            ) from error
        finally:
            if process.poll() is None:
                spark.stop()


def _get_exit_status(process: Popen[bytes]) -> int | None:
    try:
        return process.wait(_ENDS_WITHIN)
    except TimeoutExpired:
        return None


@contextmanager
def _redirect_noise(log_file: Path, spark: SparkSession) -> Iterator[None]:
    """Send to the file what other libraries log, and the stack trace that each thread has for a JVM that is gone."""
    root, own = logging.getLogger(), logging.getLogger("unskew")
    others = logging.FileHandler(log_file, delay=True)
    # Without a handler of its own: stderr, as without any handler.
    ours = logging.NullHandler() if own.handlers else logging.lastResort or logging.NullHandler()
    server = get_accumulator_server(spark)
    server.handle_error = lambda *_: root.error("the accumulators' connection is gone", exc_info=True)
    root.addHandler(others)
    own.addHandler(ours)
    own.propagate = False
    try:
        yield
    finally:
        own.propagate = True
        own.removeHandler(ours)
        root.removeHandler(others)
        others.close()
