"""Folders on S3, or what speaks its protocol: a file is there whole when its PUT is answered, and not before.

By pyarrow, which all Python workers have. Nothing is renamed, as that would be a copy and a removal.
"""

import contextlib
import os
from collections.abc import Mapping
from functools import cache
from typing import Self

import pyarrow as pa
from pyarrow import fs

# As a store that is busy answers for a moment (503).
_ATTEMPTS = 6


class S3Folder:
    """A folder of a bucket: what the names of its objects begin with.

    Parameters
    ----------
    files : pyarrow.fs.S3FileSystem
        How to reach it.
    path : str
        Bucket and folder.

    """

    costly = True

    def __init__(self, files: fs.FileSystem, path: str) -> None:
        self._files = files
        self._path = path

    @classmethod
    def at(cls, bucket: str, path: str, access: Mapping[str, str]) -> Self:
        """A folder of a bucket, by Hadoop's settings ``fs.s3a.…``."""
        return cls(_files(os.getpid(), bucket, tuple(sorted(access.items()))), f"{bucket}{path.rstrip('/')}")

    def names(self) -> list[str]:
        """As ``Folder``: a LIST."""
        found = self._files.get_file_info(fs.FileSelector(self._path, allow_not_found=True))
        return [each.base_name for each in found]

    def read(self, name: str) -> bytes:
        """As ``Folder``: a HEAD and a GET."""
        with self._files.open_input_stream(f"{self._path}/{name}") as stream:
            return stream.read()

    def open(self, name: str) -> pa.NativeFile:
        """As ``Folder``: a HEAD, and a GET a part."""
        return self._files.open_input_file(f"{self._path}/{name}")

    def write(self, name: str, data: bytes) -> None:
        """As ``Folder``: a PUT, or what a large file is uploaded by, which S3 puts together when it is complete."""
        with self._files.open_output_stream(f"{self._path}/{name}") as stream:
            stream.write(data)

    def remove(self, name: str) -> None:
        """As ``Folder``: a HEAD, a DELETE, and the PUT of an empty object for the folder."""
        with contextlib.suppress(FileNotFoundError):
            self._files.delete_file(f"{self._path}/{name}")

    def clear(self) -> None:
        """As ``Folder``."""
        with contextlib.suppress(FileNotFoundError):
            self._files.delete_dir(self._path)


@cache
def _files(_process: int, bucket: str, access: tuple[tuple[str, str], ...]) -> fs.S3FileSystem:  # none outlives a fork
    given = dict(access)
    # As Spark's side has it: many stores that speak S3 don't know the checksums that AWS' client has come to add.
    os.environ.setdefault("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
    scheme, _, endpoint = given.get("fs.s3a.endpoint", "").rpartition("://")
    if not scheme:
        scheme = "http" if given.get("fs.s3a.connection.ssl.enabled") == "false" else "https"
    region = given.get("fs.s3a.endpoint.region")
    if region is None:
        region = "us-east-1" if endpoint else fs.resolve_s3_region(bucket)
    return fs.S3FileSystem(
        access_key=given.get("fs.s3a.access.key"),  # without: AWS's usual places
        secret_key=given.get("fs.s3a.secret.key"),
        session_token=given.get("fs.s3a.session.token"),
        region=region,
        scheme=scheme,
        endpoint_override=endpoint.rstrip("/") or None,
        allow_delayed_open=True,  # a small file is one PUT instead of three requests
        background_writes=False,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
    )
