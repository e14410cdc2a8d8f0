"""Sends our package to executors whose Python lacks it."""

import atexit
import os
import shutil
import threading
import zipfile
from collections.abc import Callable
from importlib import resources
from importlib.util import cache_from_source
from pathlib import Path
from tempfile import mkdtemp

from pyspark.sql import SparkSession

from unskew.spark.compat import is_remote

#: The archive's name on the path of executors' Pythons.
ARCHIVE = "unskew.zip"
_written: list[Path] = []  # this process's archive, once written
_writing = threading.Lock()


def ship_to_executors(spark: SparkSession) -> None:
    """Send this installation's ``unskew`` to the session's executors, whose Python then needn't have it.

    Call it before a query starts. In classic PySpark all sessions of the application then have it
    (``SparkContext.addPyFile``), through Spark Connect only this one (``addArtifacts``). Further calls change nothing.

    Only ``unskew`` is sent. The executors' Python must have the packages that it imports, most of which are compiled:
    ``mmh3``, ``numba``, ``numpy`` and ``pyarrow``, for ``keyed_map`` also ``orjson``, ``pandas`` and ``protobuf``, and
    for ``kafka_sink`` ``confluent-kafka`` and ``orjson``. It must have the driver's minor version, as Spark demands.
    The setting ``spark.python.daemon.module`` must not name our daemon (``spark_settings(installed=False)``), because
    the archive arrives after the daemon's start.

    For a stream of ``keyed_map``, the Python of Spark's driver (through Spark Connect: the server's) must have
    ``unskew``, too: Spark plans the states with it, and sends it no files.

    Parameters
    ----------
    spark : SparkSession
        A session, classic or of Spark Connect.

    Notes
    -----
    The archive is in a temporary folder until this process ends, because later executors fetch it, too.

    Examples
    --------
    >>> ship_to_executors(spark)  # doctest: +SKIP

    """
    file = str(get_archive(_make_folder))
    if is_remote(spark):
        spark.addArtifacts(file, pyfile=True)
    else:
        spark.sparkContext.addPyFile(file)


def get_archive(folder: Callable[[], Path]) -> Path:
    """The archive of our package that this process sends: only one, because Spark refuses other files of that name.

    ``folder`` makes its folder, if the archive isn't written yet. It must last as long as the process.
    """
    with _writing:
        if not _written:
            _written.append(write_archive(folder()))
        return _written[0]


def _make_folder() -> Path:
    folder = Path(mkdtemp(prefix="unskew-ship-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def write_archive(folder: Path) -> Path:
    """Write the archive for ``SparkContext.addPyFile`` to the folder: our sources and their compiled files.

    Python ignores compiled files of another version or another source.
    """
    archive = folder / ARCHIVE
    root = Path(str(resources.files("unskew")))
    with zipfile.ZipFile(archive, "w") as packed:
        for parent, _, names in os.walk(root, followlinks=True):  # in a checkout the packages are links
            for file in (Path(parent, name) for name in sorted(names) if name.endswith(".py")):
                name, compiled = file.relative_to(root.parent), Path(cache_from_source(str(file)))
                packed.write(file, name)
                if compiled.is_file():
                    packed.write(compiled, name.with_suffix(".pyc"))
    return archive
