"""Folders on Azure's blobs and data lakes, by Azure's own client. A file is there as a whole once its upload has ended.

Settings have Hadoop's names.
"""

import contextlib
import io
import os
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from unskew.apps.checkpoint.folders import ObjectFolder
from unskew.errors import UsageError

try:
    from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
    from azure.core.exceptions import AzureError, ResourceExistsError, ResourceNotFoundError
    from azure.storage.blob import ContainerClient, ExponentialRetry
except ImportError as error:
    raise UsageError(
        "a checkpoint on abfss:// needs the package azure-storage-blob wherever tasks run: pip install 'unskew[azure]'"
    ) from error

if TYPE_CHECKING:
    from azure.storage.blob import BlobClient
    from typing_extensions import Buffer

#: The setting with the kind of credentials.
TYPE = "fs.azure.account.auth.type"
#: The setting with the account's key.
KEY = "fs.azure.account.key"
#: The setting with a token that somebody with the key has signed, for an account or a container, with an end.
SAS = "fs.azure.sas.fixed.token"
_ENDPOINT = "fs.azure.abfs.endpoint"
_HTTPS = "fs.azure.always.use.https"
# Classes of Hadoop's that get tokens. unskew can't run them.
_SAS_PROVIDER = "fs.azure.sas.token.provider.type"
_OAUTH_PROVIDER = "fs.azure.account.oauth.provider.type"
#: The settings that are used. Each may be given for one account alone: its host follows after a dot.
SETTINGS = (TYPE, KEY, SAS, _ENDPOINT, _HTTPS, _SAS_PROVIDER, _OAUTH_PROVIDER)

_SHARED_KEY = "SharedKey"
#: The kind of credentials that is a token.
BY_SAS = "SAS"


class AbfsFolder(ObjectFolder):
    """A folder of a container: the blobs whose names have a common beginning."""

    def __init__(self, container: ContainerClient, path: str) -> None:
        super().__init__(path)
        self._container = container

    @classmethod
    def at(cls, scheme: str, host: str, path: str, access: Mapping[str, str]) -> Self:
        """A folder of ``scheme://container@account.dfs.…``, according to Hadoop's settings ``fs.azure.…``.

        Raises ``UsageError`` if the settings ask for credentials of another kind than the account's key or a SAS token,
        or there is none.
        """
        container, _, server = host.partition("@")
        kind = access.get(TYPE, _SHARED_KEY)
        valid = (
            f"{_SHARED_KEY}, with the account's key in {KEY}.{server}, or in AZURE_STORAGE_KEY; or {BY_SAS}, with a "
            f"token in {SAS}.{server}, or in AZURE_STORAGE_SAS_TOKEN"
        )
        if kind not in (_SHARED_KEY, BY_SAS):
            provider = access.get(_OAUTH_PROVIDER)
            by = f" ({_OAUTH_PROVIDER} is {provider})" if provider else ""
            raise UsageError(f"{TYPE} is {kind!r}{by}, by which unskew can't reach {scheme}://{host}; valid: {valid}")
        secret = access.get(KEY if kind == _SHARED_KEY else SAS)
        if not secret and kind == BY_SAS and _SAS_PROVIDER in access:
            raise UsageError(
                f"{_SAS_PROVIDER} is {access[_SAS_PROVIDER]}, by which unskew can't get a token for {scheme}://{host}; "
                f"valid: {valid}"
            )
        if not secret:
            what = "key" if kind == _SHARED_KEY else "token"
            raise UsageError(f"there is no {what} for {scheme}://{host}; valid: {valid}")
        account, _, rest = server.partition(".")
        plain = scheme == "abfs" and access.get(_HTTPS) == "false"  # as Hadoop decides it
        endpoint = access.get(_ENDPOINT)  # of an emulator, where the account is the path's first part
        authority = f"{endpoint}/{account}" if endpoint else f"{account}.blob.{rest.partition('.')[2]}"
        url = f"{'http' if plain else 'https'}://{authority}"
        return cls(_connect_container(os.getpid(), url, container, account, kind, secret), path)

    def read(self, name: str) -> bytes:
        """It takes a Get Blob, of a large file one for each part."""
        with _translate_errors():
            return self._container.download_blob(self._start + name).readall()

    def open(self, name: str) -> pa.NativeFile:
        """It takes a Get Blob Properties, and a Get Blob for each part."""
        with _translate_errors():
            blob = self._container.get_blob_client(self._start + name)
            return pa.PythonFile(_BlobReader(blob, blob.get_blob_properties().size), mode="r")

    def _list_paths(self, *, recursive: bool) -> list[str]:
        # It takes a List Blobs.
        with _translate_errors():
            if recursive:
                return [*self._container.list_blob_names(name_starts_with=self._start)]
            return [each.name for each in self._container.walk_blobs(self._start, delimiter="/")]

    def _upload(self, path: str, data: bytes, *, replace: bool) -> None:
        # It takes a Put Blob. A file over 64 MiB is uploaded in blocks, which Azure then joins.
        with _translate_errors():
            self._container.upload_blob(path, data, overwrite=replace)

    def _delete(self, path: str) -> None:
        with _translate_errors():
            self._container.delete_blob(path)


class _BlobReader(io.RawIOBase):
    """A blob of ``size`` bytes to read parts of, each by a separate request. Azure's client has no such file."""

    def __init__(self, blob: "BlobClient", size: int) -> None:
        super().__init__()
        self._blob = blob
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: "Buffer", /) -> int:
        view = memoryview(buffer).cast("B")
        length = max(0, min(len(view), self._size - self._at))
        if length:
            with _translate_errors():
                view[:length] = self._blob.download_blob(self._at, length).readall()
        self._at += length
        return length


@contextlib.contextmanager
def _translate_errors() -> Iterator[None]:
    """Turn errors of Azure's client into those that a disk would raise."""
    try:
        yield
    except ResourceExistsError as error:
        raise FileExistsError(error.message) from error
    except ResourceNotFoundError as error:
        absent = getattr(error, "error_code", None) != "ContainerNotFound"
        raise (FileNotFoundError if absent else OSError)(error.message) from error
    except AzureError as error:
        raise OSError(error.message) from error


@cache
def _connect_container(
    _process: int, url: str, container: str, account: str, kind: str, secret: str
) -> ContainerClient:
    """A process' client; a fork of the process makes its own."""
    # While the store is busy, the client sends a request again. By default it would first wait for 15 s.
    patience = ExponentialRetry(initial_backoff=1, increment_base=2, retry_total=5, random_jitter_range=1)
    credential = AzureNamedKeyCredential(account, secret) if kind == _SHARED_KEY else AzureSasCredential(secret)
    return ContainerClient(url, container, credential, retry_policy=patience)
