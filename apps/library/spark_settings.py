"""Spark settings for the library's functions: what a new session should have, and what an existing one lacks.

>>> spark = SparkSession.builder.config(map=spark_settings(workers=32)).getOrCreate()  # doctest: +SKIP
>>> print(check_session(spark, workers=32))  # doctest: +SKIP
nothing is missing
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from unskew.apps.checkpoint.location import Location, resolve_location
from unskew.directories import data_directory
from unskew.errors import UsageError
from unskew.spark.compat import choose_disk_manager, is_local
from unskew.spark.setting_names import (
    BYTES,
    CHANGELOG,
    CO_PARTITION,
    DAEMON,
    MANAGER,
    OWN_DAEMON,
    PARTITIONS,
    PROVIDER,
    ROCKSDB,
    TRACEBACK,
    UNCHECKED,
)

_PYTHON = "PYSPARK_PYTHON"

_DEFAULT_PARTITIONS = "200"
_UNDEFINED = "<undefined>"  # what Spark says of a setting that it knows, and that has no value

#: Setting → what a session without it pays.
COSTS = {
    PROVIDER: "keyed_map refuses any store but RocksDB. balance and balanced_map don't use it.",
    CHANGELOG: (
        "Without it RocksDB stores its own files at each commit. With it a commit stores a log of the batch's changes. "
        "Only keyed_map has states."
    ),
    MANAGER: (
        "Spark's default starts a process (readlink) for each file that it writes to a checkpoint on a disk, which "
        "costs some hundred ms a batch."
    ),
    DAEMON: (
        "Spark's own daemon has imported nothing of what tasks need, so that each Python worker does. After each task "
        "it collects garbage, which takes some 70 ms. Executors whose Python lacks unskew must keep Spark's. It is set "
        "before Spark starts."
    ),
    TRACEBACK: (
        "Spark applies it to tasks without states alone, and doesn't share Python workers between tasks that differ in "
        "it: keyed_map has two daemons and twice the Python workers. Without it a traceback of a Python task has more "
        "lines."
    ),
    PARTITIONS: (
        "Each partition of keyed_map's state costs every batch a task and a commit. The first batch fixes their "
        "number. More partitions than workers, or than tasks run at once, are of no use."
    ),
    CO_PARTITION: (
        "balanced_join refuses a session in which it is true, because Spark would shuffle both sides once more. "
        "Nothing else uses it."
    ),
    BYTES: (
        "Spark adds up the bytes of an Arrow batch after each row, which is a quarter of a small row's cost. Only for "
        "rows that are surely small."
    ),
    _PYTHON: (
        "In each batch of keyed_map Spark starts a Python to plan it, which compiles pyspark anew, for half a second. "
        "Set the variable before Spark starts."
    ),
}


def spark_settings(
    *,
    workers: int | None = None,
    cores: int | None = None,
    checkpoint: str | None = None,
    installed: bool = True,
    small_rows: bool = False,
) -> dict[str, Any]:
    """Return the Spark settings that make a session fast for the library's functions, for any builder.

    ``spark.python.daemon.module`` must be set before Spark starts. The others can also be set in an existing session
    with ``spark.conf.set``, even through Spark Connect.

    Parameters
    ----------
    workers : int, optional
        The W ≥ 1 of ``keyed_map``. It becomes ``spark.sql.shuffle.partitions``, or ``cores`` if these are fewer, which
        the session's other shuffles have, too. Default: this setting is left out.
    cores : int, optional
        How many tasks ≥ 1 Spark will ever run at once for the query, such as 2 with ``local[2]``. The query's first
        batch fixes the number of partitions, so count the cores that it may get later. Default: W or more.
    checkpoint : str, optional
        Where the queries' checkpoints are, such as ``s3a://bucket/path``. Default: on a disk. How Spark writes files is
        changed for a disk only.
    installed : bool
        Whether the executors' Python has ``unskew`` installed. Say False if it is sent, as by ``ship_to_executors``:
        packages that are sent come too late for the daemon.
    small_rows : bool
        Whether rows are surely small. Arrow batches are then limited by the number of rows alone
        (``spark.sql.execution.arrow.maxRecordsPerBatch``, by default 10,000).

    Returns
    -------
    dict of str to str
        Setting → value, as ``SparkSession.builder.config(map=…)`` takes it.

    Raises
    ------
    UsageError
        ``workers`` or ``cores`` is below 1, or a checkpoint can't be at that address.

    Examples
    --------
    >>> for setting, value in spark_settings(workers=32, cores=16, checkpoint="s3a://bucket/path").items():
    ...     print(setting.removeprefix("spark."), value.rpartition(".")[2])
    sql.streaming.stateStore.providerClass RocksDBStateStoreProvider
    sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled true
    sql.execution.pyspark.udf.simplifiedTraceback.enabled false
    sql.requireAllClusterKeysForCoPartition false
    python.daemon.module python_daemon
    sql.shuffle.partitions 16

    """
    disk = Location.of(checkpoint or "").scheme == "file"
    version = pyspark.__version__ if disk else None
    return _list_settings(_choose_partitions(workers, cores), version, installed=installed, small_rows=small_rows)


def _choose_partitions(workers: int | None, cores: int | None) -> int | None:
    """The best number of the state's partitions."""
    for name, given in (("workers", workers), ("cores", cores)):
        if given is not None and given < 1:
            raise UsageError(f"{name} is {given}; valid: 1 or more")
    return workers if workers is None or cores is None else min(workers, cores)


def _list_settings(partitions: int | None, version: str | None, *, installed: bool, small_rows: bool) -> dict[str, str]:
    """The settings; ``version`` is Spark's if checkpoints are on a disk."""
    return {
        PROVIDER: ROCKSDB,
        CHANGELOG: "true",
        TRACEBACK: "false",
        CO_PARTITION: "false",
        **({MANAGER: choose_disk_manager(version)} if version is not None else {}),
        **({DAEMON: OWN_DAEMON} if installed else {}),
        **({PARTITIONS: str(partitions)} if partitions is not None else {}),
        **({BYTES: UNCHECKED} if small_rows else {}),
    }


@dataclass(frozen=True)
class MissingSetting:
    """A setting that a session lacks.

    Attributes
    ----------
    setting : str
        Spark's setting, or ``PYSPARK_PYTHON``, a variable of the driver's environment.
    has : str or None
        Its value. None: it isn't set.
    wants : str
        A value for it, or words that say which.
    cost : str
        What the session pays as it is.
    settable : bool
        Whether ``spark.conf.set(setting, wants)`` mends it, for queries that start afterwards.

    """

    setting: str
    has: str | None
    wants: str
    cost: str
    settable: bool

    def __str__(self) -> str:
        has = "isn't set" if self.has is None else f"is {self.has}"
        by = " (by spark.conf.set)" if self.settable else ""
        return f"{self.setting} {has}; better: {self.wants}{by}\n    {self.cost}"


class MissingSettings(list[MissingSetting]):
    """What ``check_session`` has found. Printed, each finding has two lines."""

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "nothing is missing"


def check_session(
    spark: SparkSession,
    *,
    workers: int | None = None,
    cores: int | None = None,
    checkpoint: str | None = None,
    installed: bool = True,
    small_rows: bool = False,
) -> MissingSettings:
    """List which of ``spark_settings`` a session lacks, and what each of them costs. Nothing is changed.

    Print the result to read it. Settings that somebody has chosen are accepted: any RocksDB provider, any file manager,
    fewer partitions. If Spark runs on this machine, the environment variable ``PYSPARK_PYTHON`` is checked, too.

    Parameters
    ----------
    spark : SparkSession
        A session, classic or of Spark Connect.
    workers, cores, checkpoint, installed, small_rows
        As for ``spark_settings``. Without ``workers``, only Spark's default number of partitions is reported as too
        large. ``cores`` is known if Spark runs on this machine (``local[2]``).

    Returns
    -------
    MissingSettings
        A list of ``MissingSetting``. It is empty if nothing is missing.

    Raises
    ------
    UsageError
        As ``spark_settings``.
    EnvironmentFault
        Spark doesn't say where the checkpoint is.

    Examples
    --------
    Spark's default is 200 partitions. What can be set in a session is set:

    >>> session = spark.newSession()
    >>> session.conf.set("spark.sql.shuffle.partitions", "200")
    >>> for finding in check_session(session, workers=4):
    ...     if finding.settable:
    ...         print(finding.setting, "is", finding.has, "but better", finding.wants)
    ...         session.conf.set(finding.setting, finding.wants)
    spark.sql.requireAllClusterKeysForCoPartition is true but better false
    spark.sql.shuffle.partitions is 200 but better 4

    """
    disk = checkpoint is None or resolve_location(spark, checkpoint).scheme == "file"
    partitions = _choose_partitions(workers, _count_cores(spark) if cores is None else cores)
    wanted = _list_settings(partitions, spark.version if disk else None, installed=installed, small_rows=small_rows)
    found = MissingSettings()
    for name, value in wanted.items():
        has = _read_value(spark, name)
        if not _ENOUGH.get(name, lambda has, wants: has == wants)(has, value):
            found.append(MissingSetting(name, has, value, COSTS[name], name != DAEMON))
    if workers is None and _read_value(spark, PARTITIONS) == _DEFAULT_PARTITIONS:
        wants = "the number of workers, or less"
        found.append(MissingSetting(PARTITIONS, _DEFAULT_PARTITIONS, wants, COSTS[PARTITIONS], settable=False))
    slow = _find_slow_python(spark)
    if slow is not None:
        wants = "what unskew.apps.driver.python_processes.python() returns"
        found.append(MissingSetting(_PYTHON, slow, wants, COSTS[_PYTHON], settable=False))
    return found


#: Setting → whether the value that it has is as good as the one that we would give it.
_ENOUGH: dict[str, Callable[[str | None, str], bool]] = {
    PROVIDER: lambda has, _: "RocksDB" in (has or ""),  # vendors have their own
    MANAGER: lambda has, _: has is not None,  # somebody has chosen
    PARTITIONS: lambda has, wants: re.fullmatch(r"\d+", has or "") is not None and int(has or 0) <= int(wants),
}


def _read_value(spark: SparkSession, name: str) -> str | None:
    """A setting's value in a session, by the user's choice or by Spark's default."""
    try:
        value = spark.conf.get(name)  # with a default here, Spark's own default wouldn't count
    except Exception:  # noqa: BLE001  classic and Connect raise different ones
        return None
    return None if value == _UNDEFINED else value


def _count_cores(spark: SparkSession) -> int | None:
    """How many tasks a Spark of this machine runs at once. A cluster's executors may come later."""
    return spark.sparkContext.defaultParallelism if is_local(spark) else None


def _find_slow_python(spark: SparkSession) -> str | None:
    """The Python by which a Spark of this machine plans batches with states, unless it is our script."""
    if not is_local(spark):
        return None
    python = spark.sparkContext.pythonExec
    return None if Path(python).parent == data_directory() else python
