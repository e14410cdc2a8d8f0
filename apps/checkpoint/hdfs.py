"""Folders on HDFS, by a client that speaks HDFS's own protocol. Tasks need neither libhdfs nor WebHDFS.

A file is written under another name. Then the name node renames it in one operation, which replaces the old file.
"""

import contextlib
import os
import posixpath
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from unskew.apps.checkpoint.folders import Folder, name_partial
from unskew.errors import EnvironmentFault

if TYPE_CHECKING:
    from hdfs_native import Client

# By default the client tries for minutes an address where nothing answers. This number of attempts takes 48 s.
_ATTEMPTS = "6"


class HdfsFolder(Folder):
    """A folder of HDFS, by the client of its name node."""

    costly = False

    def __init__(self, client: "Client", path: str) -> None:
        self._client = client
        self._path = path

    @classmethod
    def at(cls, host: str, path: str, access: Mapping[str, str]) -> Self:
        """A folder of ``hdfs://host``, according to Hadoop's settings and the files in ``HADOOP_CONF_DIR``.

        Raises ``EnvironmentFault`` if the client isn't installed.
        """
        return cls(_connect_client(os.getpid(), host, tuple(sorted(access.items()))), path)

    def names(self) -> list[str]:
        try:
            return [posixpath.basename(each.path) for each in self._client.list_status(self._path)]
        except FileNotFoundError:
            return []

    def read(self, name: str) -> bytes:
        return self._client.read(self._of(name)).read()

    def open(self, name: str) -> pa.NativeFile:
        return pa.PythonFile(self._client.read(self._of(name)), mode="r")

    def write(self, name: str, data: bytes) -> None:
        self._client.rename(self._write_unfinished(name, data), self._of(name), overwrite=True)

    def create(self, name: str, data: bytes) -> bool:
        """The name node refuses to rename a file to a name that is taken."""
        unfinished = self._write_unfinished(name, data)
        try:
            self._client.rename(unfinished, self._of(name), overwrite=False)
        except FileExistsError:
            self._client.delete(unfinished)
            return False
        return True

    def _write_unfinished(self, name: str, data: bytes) -> str:
        unfinished = self._of(name_partial(name))
        try:
            with self._client.create(unfinished) as file:
                file.write(data)
                file.hsync()
        except BaseException:
            with contextlib.suppress(Exception):
                self._client.delete(unfinished)
            raise
        return unfinished

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._client.delete(self._of(name))

    def clear(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._client.delete(self._path, recursive=True)

    def _of(self, name: str) -> str:
        return posixpath.join(self._path, name)


@cache
def _connect_client(_process: int, host: str, access: tuple[tuple[str, str], ...]) -> "Client":
    """A process' client; a fork of the process makes its own."""
    try:
        from hdfs_native import Client  # of the extra `hdfs`
    except ImportError as error:
        raise EnvironmentFault(
            "a checkpoint on hdfs:// needs the package hdfs-native wherever tasks run: pip install 'unskew[hdfs]'"
        ) from error
    # Executors on a standalone cluster may be another user's processes; SPARK_USER is the user that they act for.
    if "SPARK_USER" in os.environ:
        os.environ.setdefault("HADOOP_USER_NAME", os.environ["SPARK_USER"])
    given = {"dfs.client.failover.max.attempts": _ATTEMPTS, **dict(access)}
    return Client(f"hdfs://{host}" if host else given.get("fs.defaultFS"), given)
