"""The location of a checkpoint: one address, as Spark spells it, for Spark's files and for ours beside them."""

import json
import os
import posixpath
import re
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self, TypeAlias

from unskew.apps.checkpoint.folders import AddressedFolder, Folder, LocalFolder, report_store_errors
from unskew.errors import EnvironmentFault, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_VALID = (
    "a path, file:/path, s3a://bucket/path, hdfs://host:port/path, dbfs:/path, gs://bucket/path, "
    "abfss://container@account.dfs.core.windows.net/path"
)

# Other schemes of S3. Where Spark reads them by S3A, or has nothing for them, they are other names of s3a.
_S3 = ("s3", "s3n")
_S3A = "S3AFileSystem"

# Where Databricks mounts what Spark has under `dbfs:`. Volumes have a mount of their own.
_DBFS, _VOLUMES = "/dbfs", "/Volumes"

_AZURE = ("abfs", "abfss")
_AZURE_KEY, _AZURE_TOKEN = "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN"  # as in Azure's own command

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")

_HADOOP = "spark.hadoop."
# The prefixes of each store's settings, in Hadoop's names.
_PREFIXES = {
    "s3a": ("fs.s3a.", *(f"fs.{scheme}.impl" for scheme in _S3)),
    "hdfs": ("dfs.", "ipc.", "hadoop.", "fs.defaultFS"),
    "gs": ("fs.gs.",),
    "abfs": ("fs.azure.",),
    "abfss": ("fs.azure.",),
}
# AWS's usual variables, for settings of Hadoop's that aren't given. Spark itself takes the keys from them.
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
_SECRET_OF_AZURE = re.compile(
    r"\.azure\.(account\.key(\.|$)|sas\.|.*(secret|password|fixed\.token))|\.AZURE_(STORAGE_KEY|STORAGE_SAS_TOKEN|CLIENT_SECRET)$"
)


@dataclass(frozen=True)
class Location:
    """An address, with the settings to reach it; it travels to the tasks."""

    #: The address in Spark's form: a path, ``file:/path``, ``s3a://bucket/path``, ``hdfs://host:port/path``,
    #: ``dbfs:/path``, ``gs://bucket/path``, ``abfss://container@account.dfs.core.windows.net/path``. Given as ``s3://``
    #: or ``s3n://``, it is ``s3a://`` here.
    address: str
    #: The store's settings, under Hadoop's names. They may be secret, and are neither shown nor written anywhere.
    access: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, where: "Where", conf: Mapping[str, str] | None = None) -> Self:
        """The location of an address, according to Spark's settings and this process' environment.

        Raises ``UsageError`` if the address is of no kind that a checkpoint can have, or Spark reads ``s3://`` by
        another class than S3A.
        """
        if isinstance(where, Location):
            return cls(where.address, where.access)
        address = _convert_to_s3a(where, conf or {})
        scheme, host, _ = _split_address(address)
        return cls(address, _select_access(scheme, host, conf or {}))

    def __str__(self) -> str:
        return self.address

    @property
    def scheme(self) -> str:
        """``file``, ``s3a``, ``hdfs``, ``dbfs``, ``gs``, ``abfs`` or ``abfss``."""
        return _split_address(self.address)[0]

    def below(self, *names: str) -> Self:
        """The location of a folder below this one."""
        return replace(self, address=posixpath.join(self.address, *names))

    def folder(self, *names: str) -> Folder:
        """The folder here or below. Neither has to exist."""
        address = posixpath.join(self.address, *names)
        with report_store_errors(address, "reached"):
            return AddressedFolder(self._bare_folder(*_split_address(address)), address)

    def _bare_folder(self, scheme: str, host: str, path: str) -> Folder:
        # Each client is imported where it is needed: pyarrow's for S3 is large, hdfs-native is an extra.
        if scheme == "s3a":
            from unskew.apps.checkpoint.s3 import S3Folder

            return S3Folder.at(host, path, self.access)
        if scheme == "hdfs":
            from unskew.apps.checkpoint.hdfs import HdfsFolder

            return HdfsFolder.at(host, path, self.access)
        if scheme == "gs":
            from unskew.apps.checkpoint.gs import GsFolder

            return GsFolder.at(host, path, self.access)
        if scheme in _AZURE:
            from unskew.apps.checkpoint.abfs import AbfsFolder

            return AbfsFolder.at(scheme, host, path, self.access)
        return LocalFolder(_find_mount(path) if scheme == "dbfs" else path)

    @property
    def secrets(self) -> dict[str, str]:
        """Hadoop's settings with a key or token of Azure's stores, which Spark doesn't find in the environment."""
        if self.scheme not in _AZURE:
            return {}
        from unskew.apps.checkpoint.abfs import KEY, SAS

        return {name: value for name, value in self.access.items() if name in (KEY, SAS)}

    @property
    def spark(self) -> dict[str, str]:
        """Spark's settings to reach it on S3 or HDFS, without the keys.

        Spark finds S3's keys in the environment, as this class does. For other stores Spark has the user's settings.
        """
        if self.scheme not in {"s3a", "hdfs"}:
            return {}
        return {_HADOOP + name: value for name, value in self.access.items() if name not in _KEYS}


#: A location, or an address that needs no settings besides this process' environment.
Where: TypeAlias = str | Location


def resolve_location(spark: "SparkSession", address: str | None) -> Location:
    """The location of an address as a session's Spark resolves it, with the settings by which Spark reaches it.

    An address without a scheme is in Hadoop's default file system (``fs.defaultFS``). That may be set in a file that
    only Spark reads.

    Raises
    ------
    UsageError
        There is no address, or it is of no kind that a checkpoint can have. (Spark would resolve an empty address to
        its working directory.)
    EnvironmentFault
        Spark doesn't say where it is.

    """
    if not address:
        raise UsageError(f"checkpoint is {address!r}; valid: the query's checkpointLocation")
    if not _SCHEME.match(address):
        address = _resolve_address(spark, address)
    prefixes = _PREFIXES.get(_split_address(_convert_to_s3a(address, {}))[0])
    return Location.of(address, _read_hadoop_settings(spark, prefixes) if prefixes else None)


def _resolve_address(spark: "SparkSession", address: str) -> str:
    """Where an address without a scheme is, for Spark.

    We ask Spark to read a file that can't exist. Its error names the resolved path, which no other call returns through
    Spark Connect.
    """
    from pyspark.errors import AnalysisException, PySparkException

    absent = f".{uuid.uuid4().hex}"
    path = posixpath.join(address, absent)
    try:
        # Two paths: for a single missing path Spark would log a stack trace.
        _ = spark.read.text([path, path]).schema
    except AnalysisException as error:
        found = (error.getMessageParameters() or {}).get("path", "")
        if found.endswith(absent):
            return found.removesuffix(absent).rstrip("/") or "/"
        reason: Exception = error
    except PySparkException as error:
        reason = error
    else:
        raise AssertionError(f"{path} can't exist")
    raise EnvironmentFault(f"Spark doesn't say where the checkpoint {address} is ({str(reason).splitlines()[0]})")


def _read_hadoop_settings(spark: "SparkSession", prefixes: tuple[str, ...]) -> dict[str, str]:
    """Hadoop's settings with which a session's Spark reaches a store, named as Spark's settings.

    Through Spark Connect, only the settings that the session was given are known, not those in the server's files.
    """
    from unskew.spark.compat import get_java_session, get_jvm, is_remote  # it needs pyspark; a location doesn't

    if is_remote(spark):
        return spark.conf.getAll
    hadoop = get_java_session(spark).sessionState().newHadoopConf()
    classes = get_jvm()
    described = classes.java.io.StringWriter()
    classes.org.apache.hadoop.conf.Configuration.dumpConfiguration(hadoop, described)
    return {
        _HADOOP + name: hadoop.get(name)  # the description leaves secrets out
        for each in json.loads(described.toString())["properties"]
        if (name := each["key"]).startswith(prefixes) and not str(each["resource"]).endswith("-default.xml")
    }


def configure_location(address: str, conf: Mapping[str, str]) -> Location:
    """The location of an address, according to settings with which Spark will be started.

    An address without a scheme is a path of this machine, unless the settings name another default file system. The
    location's own address has a scheme, so that Spark can't resolve it in another way.

    Raises
    ------
    UsageError
        The address is of no kind that a checkpoint can have, or it is a relative path of another file system. Or there
        is a secret among the settings, which pyspark would put on the JVM's command line, where everybody can see it.

    """
    for name in conf:
        if _SECRET.search(name):
            raise UsageError(
                f"{name} would be seen by all who list this machine's processes; valid: AWS_ACCESS_KEY_ID, "
                "AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN in the environment, AWS's credentials file, or a role"
            )
        if _SECRET_OF_AZURE.search(name):
            raise UsageError(
                f"{name} would be seen by all who list this machine's processes; valid: {_AZURE_KEY} or "
                f"{_AZURE_TOKEN} in the environment"
            )
    if not _SCHEME.match(address):
        default = conf.get(f"{_HADOOP}fs.defaultFS", "file:///").rstrip("/")
        if default.startswith("file:"):
            address = f"file:{os.path.abspath(address)}"  # noqa: PTH100  a string, as for the other schemes
        elif address.startswith("/"):
            address = default + address
        else:
            raise UsageError(
                f"the checkpoint's address is {address!r}, below fs.defaultFS {default}; valid: /path, {_VALID}"
            )
    return Location.of(address, conf)


def _convert_to_s3a(address: str, conf: Mapping[str, str]) -> str:
    """An address of S3 under the scheme ``s3a``. Other addresses stay as they are.

    Hadoop has no class for ``s3`` and ``s3n``, so ``fs.s3.impl`` says whether a vendor reads them in another way.
    """
    scheme, colon, rest = address.partition(":")
    if not colon or scheme.lower() not in _S3:
        return address
    name = f"fs.{scheme.lower()}.impl"
    reads = conf.get(_HADOOP + name)
    if reads and reads.rpartition(".")[2] != _S3A:
        raise UsageError(
            f"the checkpoint's address begins with {scheme}:, which Spark reads by {reads} ({name}); valid: "
            f"s3a://bucket/path, or {name}=org.apache.hadoop.fs.s3a.{_S3A}"
        )
    return f"s3a:{rest}"


def _find_mount(path: str) -> str:
    """Where a path of ``dbfs:`` is mounted: a volume below ``/Volumes``, anything else below ``/dbfs``.

    Raises
    ------
    EnvironmentFault
        There is no such mount. (A folder of that name, made on the disk, would be this machine's alone.)

    """
    volume = re.match(r"/Volumes((?:/[^/]+){3})", path)
    mount = _VOLUMES + volume[1] if volume else _DBFS
    if not os.path.isdir(mount):  # noqa: PTH112  a string, as for the other schemes
        raise EnvironmentFault(
            f"the checkpoint dbfs:{path} is reached by the mount {mount}, which is not on {socket.gethostname()}; "
            "valid: an address that all machines reach, such as /Volumes/catalog/schema/volume/path on Databricks' "
            "clusters, or s3a://bucket/path"
        )
    return mount + path[volume.end() if volume else 0 :]


def _split_address(address: str) -> tuple[str, str, str]:
    """Scheme, host (or bucket) and path."""
    found = re.fullmatch(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(.*)", address)
    if found is None:
        return "file", "", os.path.abspath(address)  # noqa: PTH100  a string, as for the other schemes
    scheme, host, path = found[1].lower(), found[2] or "", found[3]
    azure = re.fullmatch(r"[a-z0-9-]+@[a-z0-9]+\.(dfs|blob)\.[a-z0-9.-]+", host) if scheme in _AZURE else None
    if "@" in host and (scheme not in _AZURE or ":" in host):
        raise UsageError(f"the checkpoint's address {scheme}://… has a name or a password in it; valid: {_VALID}")
    whole = {"file": not host and path.startswith("/"), "s3a": bool(host), "hdfs": found[2] is not None}
    whole |= {"dbfs": whole["file"], "gs": bool(host), "abfs": azure is not None, "abfss": azure is not None}
    if whole.get(scheme):
        return scheme, host, posixpath.normpath(path or "/")
    raise UsageError(f"the checkpoint's address is {address!r}; valid: {_VALID}")


def _select_access(scheme: str, host: str, conf: Mapping[str, str]) -> dict[str, str]:
    prefixes = _PREFIXES.get(scheme)
    if prefixes is None:
        return {}
    hadoop = {name.removeprefix(_HADOOP): value for name, value in conf.items() if name.startswith(_HADOOP)}
    access = {name: value for name, value in hadoop.items() if name.startswith(prefixes)}
    if scheme in _AZURE:
        return _select_azure_access(host.partition("@")[2], access)
    if scheme == "gs":
        from unskew.apps.checkpoint.gs import SETTINGS

        return {name: access[name] for name in SETTINGS if name in access}
    if scheme == "hdfs":
        return access
    bucket = f"fs.s3a.bucket.{host}."
    own = {f"fs.s3a.{name.removeprefix(bucket)}": value for name, value in access.items() if name.startswith(bucket)}
    environment = {
        name: next(filter(None, map(os.environ.get, variables)), None) for name, variables in _FROM_ENVIRONMENT.items()
    }
    if any(name in access | own for name in _KEYS):  # the environment's token belongs to its own pair of keys
        environment = {name: value for name, value in environment.items() if name not in _KEYS}
    return {name: value for name, value in environment.items() if value} | access | own


def _select_azure_access(server: str, settings: Mapping[str, str]) -> dict[str, str]:
    """The settings of one account, whose own go before those of all; and no secret of another account."""
    from unskew.apps.checkpoint.abfs import BY_SAS, KEY, SAS, SETTINGS, TYPE

    given = {name: settings.get(f"{name}.{server}", settings.get(name)) for name in SETTINGS}
    given[KEY] = given[KEY] or os.environ.get(_AZURE_KEY)
    given[SAS] = given[SAS] or os.environ.get(_AZURE_TOKEN)
    given[KEY if given[TYPE] == BY_SAS else SAS] = None  # the one that isn't used need not travel
    return {name: value for name, value in given.items() if value}
