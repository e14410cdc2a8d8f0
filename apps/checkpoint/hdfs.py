"""Folders on HDFS, by a client that speaks its protocol itself: where tasks run, no libhdfs is needed, nor WebHDFS.

A file is written under another name and takes its own by one operation of the name node, which replaces the old one.
"""

import contextlib
import os
import posixpath
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from unskew.apps.checkpoint.folders import partial
from unskew.errors import EnvironmentFault

if TYPE_CHECKING:
    from hdfs_native import Client

# Without, an address where nothing answers is tried for minutes; these take 48 s.
_ATTEMPTS = "6"


class HdfsFolder:
    """A folder of HDFS.

    Parameters
    ----------
    client : hdfs_native.Client
        How to reach it.
    path : str
        Absolute.

    """

    costly = False

    def __init__(self, client: "Client", path: str) -> None:
        self._client = client
        self._path = path

    @classmethod
    def at(cls, host: str, path: str, access: Mapping[str, str]) -> Self:
        """A folder of ``hdfs://host``, by Hadoop's settings and the files in ``HADOOP_CONF_DIR``.

        Raises
        ------
        EnvironmentFault
            The client isn't installed.

        """
        return cls(_client(os.getpid(), host, tuple(sorted(access.items()))), path)

    def names(self) -> list[str]:
        """As ``Folder``."""
        try:
            return [posixpath.basename(each.path) for each in self._client.list_status(self._path)]
        except FileNotFoundError:
            return []

    def read(self, name: str) -> bytes:
        """As ``Folder``."""
        return self._client.read(self._of(name)).read()

    def open(self, name: str) -> pa.NativeFile:
        """As ``Folder``."""
        return pa.PythonFile(self._client.read(self._of(name)), mode="r")

    def write(self, name: str, data: bytes) -> None:
        """As ``Folder``."""
        unfinished = self._of(partial(name))
        with self._client.create(unfinished) as file:
            file.write(data)
            file.hsync()
        self._client.rename(unfinished, self._of(name), overwrite=True)

    def remove(self, name: str) -> None:
        """As ``Folder``."""
        with contextlib.suppress(FileNotFoundError):
            self._client.delete(self._of(name))

    def clear(self) -> None:
        """As ``Folder``."""
        with contextlib.suppress(FileNotFoundError):
            self._client.delete(self._path, recursive=True)

    def _of(self, name: str) -> str:
        return posixpath.join(self._path, name)


@cache
def _client(_process: int, host: str, access: tuple[tuple[str, str], ...]) -> "Client":  # none outlives a fork
    try:
        from hdfs_native import Client
    except ImportError as error:
        raise EnvironmentFault(
            "a checkpoint on hdfs:// needs the package hdfs-native wherever tasks run: pip install 'unskew[hdfs]'"
        ) from error
    # Executors on a standalone cluster may be another user's processes: Spark says in whose name they act.
    if "SPARK_USER" in os.environ:
        os.environ.setdefault("HADOOP_USER_NAME", os.environ["SPARK_USER"])
    given = {"dfs.client.failover.max.attempts": _ATTEMPTS, **dict(access)}
    return Client(f"hdfs://{host}" if host else given.get("fs.defaultFS"), given)
