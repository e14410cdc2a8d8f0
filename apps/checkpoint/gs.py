"""Folders on Google Cloud Storage, by Google's own client. A file is there as a whole once its upload has ended.

Settings have the names of Google's connector for Hadoop, from its version 3 on.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from unskew.apps.checkpoint.folders import ObjectFolder
from unskew.errors import UsageError

try:
    from google.api_core.exceptions import GoogleAPIError, NotFound, PreconditionFailed
    from google.auth import compute_engine
    from google.auth.credentials import AnonymousCredentials
    from google.auth.exceptions import GoogleAuthError
    from google.cloud import storage
    from google.cloud.storage.retry import DEFAULT_RETRY
    from google.oauth2 import service_account
except ImportError as error:
    raise UsageError(
        "a checkpoint on gs:// needs the package google-cloud-storage wherever tasks run: pip install 'unskew[gcs]'"
    ) from error

if TYPE_CHECKING:
    from google.auth.credentials import Credentials

_TYPE = "fs.gs.auth.type"
_KEYFILE = "fs.gs.auth.service.account.json.keyfile"
_ROOT = "fs.gs.storage.root.url"
#: The settings that are used.
SETTINGS = (_TYPE, _KEYFILE, _ROOT)

_DEFAULT = "APPLICATION_DEFAULT"
_MACHINE = "COMPUTE_ENGINE"
_BY_KEYFILE = "SERVICE_ACCOUNT_JSON_KEYFILE"
_NOBODY = "UNAUTHENTICATED"
_VALID = (_DEFAULT, _MACHINE, _BY_KEYFILE, _NOBODY)
_SCOPES = ("https://www.googleapis.com/auth/devstorage.read_write",)

_AHEAD = 1 << 20  # bytes that a file to read parts of reads at least; the client's default is 40 MiB


class GsFolder(ObjectFolder):
    """A folder of a bucket: the objects whose names have a common beginning."""

    def __init__(self, bucket: storage.Bucket, path: str) -> None:
        super().__init__(path)
        self._bucket = bucket

    @classmethod
    def at(cls, bucket: str, path: str, access: Mapping[str, str]) -> Self:
        """A folder of a bucket, according to Hadoop's settings ``fs.gs.…``.

        Raises ``UsageError`` if the settings ask for credentials of another kind, or name no key file.
        """
        kind = access.get(_TYPE, _DEFAULT)
        if kind not in _VALID:
            raise UsageError(
                f"{_TYPE} is {kind!r}, by which unskew can't reach gs://{bucket}; valid: {', '.join(_VALID)}"
            )
        keyfile = access.get(_KEYFILE, "")
        if kind == _BY_KEYFILE and not keyfile:
            raise UsageError(f"{_TYPE} is {kind!r}, and {_KEYFILE} is missing; valid: the key file's path")
        with _translate_errors():
            client = _connect_client(os.getpid(), kind, keyfile, access.get(_ROOT, "").rstrip("/"))
        return cls(client.bucket(bucket), path)

    def read(self, name: str) -> bytes:
        """It takes a GET."""
        with _translate_errors():
            return self._bucket.blob(self._start + name).download_as_bytes()

    def open(self, name: str) -> pa.NativeFile:
        """It takes a GET of its size, and a GET for each part that isn't close to the last one."""
        with _translate_errors():
            blob = self._bucket.blob(self._start + name)
            blob.reload()
            return pa.PythonFile(blob.open("rb", chunk_size=_AHEAD), mode="r")

    def _list_paths(self, *, recursive: bool) -> list[str]:
        # It takes a LIST.
        fields, delimiter = "items(name),prefixes,nextPageToken", None if recursive else "/"
        with _translate_errors():
            listed = self._bucket.list_blobs(prefix=self._start, delimiter=delimiter, fields=fields)
            paths = [each.name for each in listed]  # only then it knows all folders
        return [*paths, *listed.prefixes]

    def _upload(self, path: str, data: bytes, *, replace: bool) -> None:
        # It takes an upload, of a large file one for each part.
        kind, generation = "application/octet-stream", None if replace else 0
        with _translate_errors():
            self._bucket.blob(path).upload_from_string(data, kind, if_generation_match=generation, retry=DEFAULT_RETRY)

    def _delete(self, path: str) -> None:
        with _translate_errors():
            self._bucket.blob(path).delete(retry=DEFAULT_RETRY)


@contextlib.contextmanager
def _translate_errors() -> Iterator[None]:
    """Turn errors of Google's client into those that a disk would raise."""
    try:
        yield
    except PreconditionFailed as error:
        raise FileExistsError(str(error)) from error
    except NotFound as error:
        raise FileNotFoundError(error.message) from error
    except (GoogleAPIError, GoogleAuthError) as error:
        raise OSError(str(error)) from error


@cache
def _connect_client(_process: int, kind: str, keyfile: str, root: str) -> storage.Client:
    """A process' client; a fork of the process makes its own."""
    credentials: Credentials | None = None  # the client then searches as Google's programs do
    if kind == _MACHINE:
        credentials = compute_engine.Credentials()
    elif kind == _BY_KEYFILE:
        credentials = service_account.Credentials.from_service_account_file(keyfile, scopes=_SCOPES)
    elif kind == _NOBODY:
        credentials = AnonymousCredentials()
    options = {"api_endpoint": root} if root else None
    return storage.Client(project=None, credentials=credentials, client_options=options)  # no bucket is made
