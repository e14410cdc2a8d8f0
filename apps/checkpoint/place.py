"""Where a checkpoint lies: one address, as Spark spells it, for Spark's files and for ours beside them."""

import os
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self, TypeAlias

from unskew.apps.checkpoint.folders import Folder, LocalFolder, ToldFolder, told
from unskew.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VALID = "a path, file:/path, s3a://bucket/path, hdfs://host:port/path"

_HADOOP = "spark.hadoop."
# What a store's own settings begin with, in Hadoop's names.
_OWN = {"s3a": ("fs.s3a.",), "hdfs": ("dfs.", "ipc.", "hadoop.", "fs.defaultFS")}
# AWS's usual variables, for what Hadoop's settings leave open. (Spark takes the keys from them for its own part.)
_FROM_ENVIRONMENT = {
    "fs.s3a.access.key": ("AWS_ACCESS_KEY_ID",),
    "fs.s3a.secret.key": ("AWS_SECRET_ACCESS_KEY",),
    "fs.s3a.session.token": ("AWS_SESSION_TOKEN",),
    "fs.s3a.endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "fs.s3a.endpoint.region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
}
_KEYS = ("fs.s3a.access.key", "fs.s3a.secret.key", "fs.s3a.session.token")
_SECRET = re.compile(
    r"\.s3a\..*((access|secret)\.key|session\.token|password|encryption\.key)$|\.AWS_(SECRET_ACCESS_KEY|SESSION_TOKEN)$"
)


@dataclass(frozen=True)
class Place:
    """An address and how to reach it; travels to the tasks.

    Attributes
    ----------
    address : str
        As Spark spells it: a path, ``file:/path``, ``s3a://bucket/path``, ``hdfs://host:port/path``.
    access : mapping
        The store's settings, in Hadoop's names. They may be secret: neither shown nor written anywhere.

    """

    address: str
    access: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, where: "Where", conf: Mapping[str, str] | None = None) -> Self:
        """The place of an address, by Spark's settings and this process' environment.

        Raises
        ------
        UsageError
            There is no such kind of address.

        """
        if isinstance(where, Place):
            return cls(where.address, where.access)
        scheme, host, _ = _split(where)
        return cls(where, _access(scheme, host, conf or {}))

    def __str__(self) -> str:
        return self.address

    @property
    def scheme(self) -> str:
        """``file``, ``s3a`` or ``hdfs``."""
        return _split(self.address)[0]

    def below(self, *names: str) -> Self:
        """A place further down."""
        return replace(self, address=posixpath.join(self.address, *names))

    def folder(self, *names: str) -> Folder:
        """The folder here, or further down; neither has to exist."""
        address = posixpath.join(self.address, *names)
        with told(address, "reached"):
            return ToldFolder(self._untold(*_split(address)), address)

    def _untold(self, scheme: str, host: str, path: str) -> Folder:
        if scheme == "s3a":
            from unskew.apps.checkpoint.s3 import S3Folder

            return S3Folder.at(host, path, self.access)
        if scheme == "hdfs":
            from unskew.apps.checkpoint.hdfs import HdfsFolder

            return HdfsFolder.at(host, path, self.access)
        return LocalFolder(path)

    @property
    def spark(self) -> dict[str, str]:
        """What Spark must be told to reach it, but for secrets: those it finds in the environment that we found."""
        return {_HADOOP + name: value for name, value in self.access.items() if name not in _KEYS}


#: A place, or an address for which this process' environment is enough.
Where: TypeAlias = str | Place


def place_of(spark: "SparkSession", address: str) -> Place:
    """The place of an address, by a session's settings."""
    return Place.of(address, spark.conf.getAll)


def asked(address: str, conf: Mapping[str, str]) -> Place:
    """The place of an address, by settings with which Spark is to be started.

    Raises
    ------
    UsageError
        There is no such kind of address; or a secret is among the settings, which pyspark puts on the JVM's command
        line, for all to see.

    """
    for name in conf:
        if _SECRET.search(name):
            raise UsageError(
                f"{name} would be seen by all who list this machine's processes; valid: AWS_ACCESS_KEY_ID, "
                "AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN in the environment, AWS's credentials file, or a role"
            )
    return Place.of(address, conf)


def _split(address: str) -> tuple[str, str, str]:
    """Scheme, host (or bucket) and path."""
    found = re.fullmatch(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(.*)", address)
    if found is None:
        return "file", "", os.path.abspath(address)  # noqa: PTH100  a text, as those of the others are
    scheme, host, path = found[1].lower(), found[2] or "", found[3]
    if "@" in host:
        raise UsageError(f"the checkpoint's address {scheme}://… has a name or a password in it; valid: {VALID}")
    whole = {"file": not host and path.startswith("/"), "s3a": bool(host), "hdfs": found[2] is not None}
    if whole.get(scheme):
        return scheme, host, posixpath.normpath(path or "/")
    raise UsageError(f"the checkpoint's address is {address!r}; valid: {VALID}")


def _access(scheme: str, host: str, conf: Mapping[str, str]) -> dict[str, str]:
    prefixes = _OWN.get(scheme)
    if prefixes is None:
        return {}
    hadoop = {name.removeprefix(_HADOOP): value for name, value in conf.items() if name.startswith(_HADOOP)}
    access = {name: value for name, value in hadoop.items() if name.startswith(prefixes)}
    if scheme == "hdfs":
        return access
    bucket = f"fs.s3a.bucket.{host}."
    own = {f"fs.s3a.{name.removeprefix(bucket)}": value for name, value in access.items() if name.startswith(bucket)}
    environment = {
        name: next(filter(None, map(os.environ.get, variables)), None) for name, variables in _FROM_ENVIRONMENT.items()
    }
    if any(name in access | own for name in _KEYS):  # another pair of keys goes with no token of this one
        environment = {name: value for name, value in environment.items() if name not in _KEYS}
    return {name: value for name, value in environment.items() if value} | access | own
