"""Starts and stops a run's Spark session, with its settings, even if its JVM dies."""

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
    # Windows, results and their text are in UTC wherever the driver runs.
    "spark.sql.session.timeZone": "UTC",
    # The state of all (window, key, worker) may exceed memory.
    PROVIDER: ROCKSDB,
    CHANGELOG: "true",
    # Tasks with and without states share Python workers.
    TRACEBACK: "false",
    # Larger Arrow batches cost less per tuple: fewer switches between JVM and Python, larger packets.
    ROWS: str(MOST_ROWS),
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    # Spark's default without Kafka: the older source converts times to Java's timestamps, which lack the year 294247.
    "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
}

# For a checkpoint in this machine's files.
_FILE = {
    # Spark's default manager starts a process (`readlink`) for each file: some thirty per batch, a fifth of its time.
    # This manager writes and renames the same files.
    MANAGER: choose_disk_manager(pyspark.__version__),
}
# For a checkpoint on S3.
_S3A = {
    # Credentials come from the driver's environment, which Spark passes on, then from AWS's usual sources. S3A's
    # default providers lack AWS's files and web identities.
    "spark.hadoop.fs.s3a.aws.credentials.provider": (
        "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider,"
        "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider,"
        "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
    ),
    # Spark's default manager renames each log after writing it. S3 can't rename: S3A copies and removes, in some 20
    # requests. This manager writes the file atomically with one PUT.
    MANAGER: "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager",
    # Spark checks whether a file exists before it writes it: S3A needn't check again.
    "spark.hadoop.fs.s3a.performance.flags": "create",
}
# For a checkpoint on Google Cloud Storage.
_GS = {
    # From 3.5 on, Hadoop has a connector for gs://, and a default size that Google's connector can't parse.
    "spark.hadoop.fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFS",
    "spark.hadoop.fs.gs.block.size": str(64 << 20),
    # Our client's default. The connector would use only the machine's account.
    "spark.hadoop.fs.gs.auth.type": "APPLICATION_DEFAULT",
}

# The state's partitions are fixed when a checkpoint is created; each costs a commit of some 50 ms per batch.
_LEAST_PARTITIONS = 4
# Simulated cost is spent asleep, so tasks may outnumber cores; but each task has a Python process.
_MOST_TASKS = 128
# Python workers fork from this module's process, which has tasks' imports.
_OUR_DAEMON = {DAEMON: OWN_DAEMON}
# Spark generates a secret, which other users of this machine don't know, though they reach its ports.
_OWN_SECRET = {"spark.authenticate": "true"}
# As on a cluster: if a Python worker dies, an attempt of its task fails, not the run.
_ATTEMPTS = 4
# Spark's logs to keep, besides those of running processes.
_LOGS = 20
_MADE = threading.Lock()  # held by the run that creates, or has created, this process's session
_TEMPORARY = "unskew-run-"
# The JVM's sockets close shortly before its process ends.
_ENDS_WITHIN = 5.0  # s


@contextmanager
def open_session(settings: Settings, groupings: Sequence[str] = ()) -> Iterator[SparkSession]:
    """Start a Spark session for one or several runs with these groupings, and stop it at the end.

    In LOCAL mode, if tuples have a simulated cost, Spark has as many threads as workers or sources, so that workers
    wait in parallel. If not, it has two threads per core, so that one task runs while another waits for its Python
    process. There are at most 128 threads. In CLUSTER mode, our package is sent to the executors.
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
    # While the JVM starts, the groupings are compiled once here, instead of in every Python worker.
    with ThreadPoolExecutor(1) as pool:
        warmed = pool.submit(lambda: [warm_kernels(name) for name in names])
        spark = start_spark(settings.name, master, _LEAST_PARTITIONS, conf, settings.location)
        # For the executors' Python. As settings, they would show the secret on the JVM's command line.
        spark.sparkContext.environment.update(list_variables())
        if PARTITIONS not in conf:
            spark.conf.set(PARTITIONS, _choose_partitions(stage, spark))
        warmed.result()
    with keep_session(spark, get_log_file()):
        _ship_package(spark, stage)
        yield spark


@contextmanager
def borrow_session(spark: SparkSession, settings: Settings) -> Iterator[SparkSession]:
    """A session next to the user's, in the same Spark, with a run's settings. The user's session stays unchanged.

    Settings that need a new Spark stay unchanged.

    Raises ``UsageError`` if it is a Spark Connect session, or its Spark lacks the Kafka connector.
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
    """Refuse to create a session if there is one, because the run would use that, and stop it at its end.

    Raises ``UsageError`` if this process has a Spark session, or a run is creating one.
    """
    # (`getActiveSession` is only this thread's.)
    if SparkContext._active_spark_context is not None or _MADE.locked():  # noqa: SLF001
        raise _make_session_error()


def claim_session() -> None:
    """Claim this process's session for a run. Raises as ``require_no_session``."""
    require_no_session()
    if not _MADE.acquire(blocking=False):  # another thread was faster
        raise _make_session_error()


def _make_session_error() -> UsageError:
    return UsageError("this process has a Spark session: start the topology in it, with spark=")


def release_session() -> None:
    """Let another run of this process create a session."""
    _MADE.release()


def _ship_package(spark: SparkSession, stage: WorkerStage) -> None:
    """Send our package to the executors, if they are other processes, and check their Python."""
    if stage.settings.mode == "CLUSTER":
        spark.sparkContext.addPyFile(str(get_archive(lambda: Path(mkdtemp(dir=_make_temporary_folder())))))
        require_python(spark, states=stage.keyed)


def _choose_partitions(stage: WorkerStage, spark: SparkSession) -> int:
    """The number of state partitions of a new checkpoint, unless the user's Spark settings have one."""
    settings = stage.settings
    if stage.by_worker:
        return min(settings.workers, _MOST_TASKS)
    local = settings.mode == "LOCAL"
    cores = (os.cpu_count() or 1) if local else spark.sparkContext.defaultParallelism
    least = 1 if local else _LEAST_PARTITIONS
    return min(max(cores, least), _MOST_TASKS)


def get_log_file() -> Path:
    """The file of this process's Spark log."""
    return data_directory() / "logs" / f"spark-{os.getpid()}.log"


def start_spark(
    name: str, master: str, partitions: int, conf: Mapping[str, str] | None = None, location: Location | None = None
) -> SparkSession:
    """Start Spark.

    ``master`` is ``local[N]`` or a cluster's URL. The windowed state has as many partitions as ``partitions``, which is
    fixed once a checkpoint is created. The user's settings (``conf``) have precedence over ours. The checkpoint's
    ``location`` is in this machine's files by default.

    Raises ``EnvironmentFault`` if Java or the jars are missing, or the master can't be reached.
    """
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    local = master.startswith("local")
    # The user's secret has precedence over our cluster's.
    secret = None if conf and not AUTHENTICATED.keys().isdisjoint(conf) else read_secret(master)
    # For the JVM that only composes Spark's command line, and should start quickly.
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
    # Settings are on the JVM's command line, where everybody would see the secrets.
    for each in location.secrets.items():
        get_java_session(spark).sparkContext().hadoopConfiguration().set(*each)
    # PySpark itself knows only the environment's PYSPARK_PYTHON, unless spark-submit started the driver.
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
    """Remove all but the newest logs of processes that have ended."""
    with suppress(FileNotFoundError):  # another process removes them, too
        for old in sorted(folder.glob("spark-*.log*"), key=lambda path: path.stat().st_mtime)[:-_LOGS]:
            pid = old.name.removeprefix("spark-").partition(".")[0]
            if pid.isdigit() and not is_alive(int(pid)):
                old.unlink()


@cache
def _make_temporary_folder() -> Path:
    """The folder for temporary files of this process and its JVM, removed when this process ends.

    Spark leaves files there when killed, and empty folders (``artifacts-…``) always. Folders of killed processes are
    removed, too.
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
    """Let a JVM started in the block listen only on the loopback interface.

    By default Spark listens on the address that other machines see. The variable applies to RPC, blocks and UI. Spark's
    settings (``spark.driver.host``) have precedence over it.
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
    """Pass a cluster's secret to a JVM started in the block.

    Other users see settings on the JVM's command line, but not variables.
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
    """Keep our handler of Ctrl-C, because PySpark's cancels running jobs."""
    ours = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, ours)


@contextmanager
def _redirect_stderr(log: Path) -> Iterator[None]:
    """Redirect stderr of processes started in the block, such as the JVM's notices, to the log."""
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
    """Spark's settings for a checkpoint at the location; the user's settings have precedence."""
    return {"file": _FILE, "s3a": _S3A, "gs": _GS}.get(location.scheme, {}) | location.spark


@contextmanager
def keep_session(spark: SparkSession, log_file: Path) -> Iterator[None]:
    """Use this session, and stop it at the end. If its JVM dies, the user gets one line, and the log the rest.

    Raises ``EnvironmentFault`` if the JVM was killed or ran out of memory.
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
    """Redirect other libraries' logs, and the threads' stack traces after the JVM's end, to the file."""
    root, own = logging.getLogger(), logging.getLogger("unskew")
    others = logging.FileHandler(log_file, delay=True)
    # Without a handler: stderr, Python's default.
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
