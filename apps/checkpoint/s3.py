"""Folders on S3, or on a store that speaks its protocol. A file is there as a whole once its PUT is answered.

The client is pyarrow's, which all Python workers have. No file is renamed, because S3 would copy and remove it.
"""

import contextlib
import os
from collections.abc import Mapping
from functools import cache
from typing import Self

import pyarrow as pa
from pyarrow import fs

# More than pyarrow's default, because a busy store may refuse for a moment (503).
_ATTEMPTS = 6


class S3Folder:
    """A folder of a bucket: the objects whose names have a common beginning.

    Parameters
    ----------
    files : pyarrow.fs.S3FileSystem
        The client.
    path : str
        The bucket and the folder.

    """

    costly = True

    def __init__(self, files: fs.FileSystem, path: str) -> None:
        self._files = files
        self._path = path

    @classmethod
    def at(cls, bucket: str, path: str, access: Mapping[str, str]) -> Self:
        """A folder of a bucket, according to Hadoop's settings ``fs.s3a.…``."""
        return cls(_files(os.getpid(), bucket, tuple(sorted(access.items()))), f"{bucket}{path.rstrip('/')}")

    def names(self) -> list[str]:
        """As ``Folder``. It takes a LIST."""
        found = self._files.get_file_info(fs.FileSelector(self._path, allow_not_found=True))
        return [each.base_name for each in found]

    def read(self, name: str) -> bytes:
        """As ``Folder``. It takes a HEAD and a GET."""
        with self._files.open_input_stream(f"{self._path}/{name}") as stream:
            return stream.read()

    def open(self, name: str) -> pa.NativeFile:
        """As ``Folder``. It takes a HEAD, and a GET for each part."""
        return self._files.open_input_file(f"{self._path}/{name}")

    def write(self, name: str, data: bytes) -> None:
        """As ``Folder``. It takes a PUT. A large file is uploaded in parts, which S3 then puts together."""
        with self._files.open_output_stream(f"{self._path}/{name}") as stream:
            stream.write(data)

    def create(self, name: str, data: bytes) -> bool:
        """As ``Folder``, but two callers may both write at the same moment: pyarrow's client has no conditional PUT."""
        if self._files.get_file_info(f"{self._path}/{name}").type != fs.FileType.NotFound:
            return False
        self.write(name, data)
        return True

    def remove(self, name: str) -> None:
        """As ``Folder``. It takes a HEAD, a DELETE, and the PUT of an empty object for the folder."""
        with contextlib.suppress(FileNotFoundError):
            self._files.delete_file(f"{self._path}/{name}")

    def clear(self) -> None:
        """As ``Folder``."""
        with contextlib.suppress(FileNotFoundError):
            self._files.delete_dir(self._path)


@cache
def _files(_process: int, bucket: str, access: tuple[tuple[str, str], ...]) -> fs.S3FileSystem:
    """A process' client; a fork of the process makes its own."""
    given = dict(access)
    # As in Spark's JVM: many stores that speak S3 don't know the checksums that newer versions of AWS's client add.
    os.environ.setdefault("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
    scheme, _, endpoint = given.get("fs.s3a.endpoint", "").rpartition("://")
    if not scheme:
        scheme = "http" if given.get("fs.s3a.connection.ssl.enabled") == "false" else "https"
    region = given.get("fs.s3a.endpoint.region")
    if region is None:
        region = "us-east-1" if endpoint else fs.resolve_s3_region(bucket)
    return fs.S3FileSystem(
        access_key=given.get("fs.s3a.access.key"),  # None: pyarrow finds AWS's usual keys
        secret_key=given.get("fs.s3a.secret.key"),
        session_token=given.get("fs.s3a.session.token"),
        region=region,
        scheme=scheme,
        endpoint_override=endpoint.rstrip("/") or None,
        allow_delayed_open=True,  # a small file is one PUT instead of three requests
        background_writes=False,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
    )
