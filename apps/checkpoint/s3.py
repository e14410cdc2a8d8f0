"""Folders on S3, or on a store that speaks its protocol. A file is there as a whole once its PUT is answered.

The client is pyarrow's, which all Python workers have. No file is renamed, because S3 would copy and remove it.

pyarrow's client has no conditional write, but it is the one with AWS's keys and roles. So a file that must not be there
goes through a proxy in this process, which adds the header for that to the request. Signatures are of other headers.
"""

import contextlib
import os
import re
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import cache, partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_hex
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
from pyarrow import fs

from unskew.apps.checkpoint.folders import Folder

# More than pyarrow's default, because a busy store may refuse for a moment (503).
_ATTEMPTS = 6
_PATIENCE = 30.0  # s
_REFUSED, _CONFLICT = 412, 409  # there is such an object; another write of it is under way
_OF_CONNECTIONS = {"connection", "proxy-connection", "proxy-authorization", "keep-alive", "transfer-encoding", "expect"}


class S3Folder(Folder):
    """A folder of a bucket: the objects whose names have a common beginning.

    ``creating`` makes the client whose writes are refused if there is such an object. Only the driver creates files so.
    """

    costly = True

    def __init__(self, files: fs.FileSystem, path: str, creating: Callable[[], fs.FileSystem]) -> None:
        self._files = files
        self._path = path
        self._creating = creating

    @classmethod
    def at(cls, bucket: str, path: str, access: Mapping[str, str]) -> Self:
        """A folder of a bucket, according to Hadoop's settings ``fs.s3a.…``."""
        of = os.getpid(), bucket, tuple(sorted(access.items()))
        return cls(_connect_files(*of), f"{bucket}{path.rstrip('/')}", partial(_connect_files, *of, creating=True))

    def names(self) -> list[str]:
        """It takes a LIST."""
        found = self._files.get_file_info(fs.FileSelector(self._path, allow_not_found=True))
        return [each.base_name for each in found]

    def read(self, name: str) -> bytes:
        """It takes a HEAD and a GET."""
        with self._files.open_input_stream(f"{self._path}/{name}") as stream:
            return stream.read()

    def open(self, name: str) -> pa.NativeFile:
        """It takes a HEAD, and a GET for each part."""
        return self._files.open_input_file(f"{self._path}/{name}")

    def write(self, name: str, data: bytes) -> None:
        """It takes a PUT. A large file is uploaded in parts, which S3 then puts together."""
        self._put(self._files, name, data)

    def create(self, name: str, data: bytes) -> bool:
        """A PUT on the condition that there is no object of that name (``If-None-Match: *``).

        If the answer is lost, the client sends the request again, and finds what the first one has written. We look
        before, for stores that don't know the condition.
        """
        if self._files.get_file_info(f"{self._path}/{name}").type != fs.FileType.NotFound:
            return False
        for attempt in range(_ATTEMPTS):
            try:
                self._put(self._creating(), name, data)
            except OSError as error:
                found = re.search(r"HTTP status (\d+)", str(error))
                status = int(found[1]) if found else 0
                if status == _REFUSED:
                    return False
                if status != _CONFLICT or attempt == _ATTEMPTS - 1:
                    raise
                time.sleep(0.1 * 2**attempt)
            else:
                break
        return True

    def _put(self, files: fs.FileSystem, name: str, data: bytes) -> None:
        with files.open_output_stream(f"{self._path}/{name}") as stream:
            stream.write(data)

    def remove(self, name: str) -> None:
        """It takes a HEAD, a DELETE, and the PUT of an empty object for the folder."""
        with contextlib.suppress(FileNotFoundError):
            self._files.delete_file(f"{self._path}/{name}")

    def clear(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._files.delete_dir(self._path)


class _CreateProxyHandler(BaseHTTPRequestHandler):
    """Passes requests on, with the condition that there is no such object."""

    protocol_version = "HTTP/1.1"
    kind: type[HTTPConnection]
    login: str

    def do_PUT(self) -> None:
        if self.headers["Proxy-Authorization"] != self.login:
            self.send_error(407)  # another user of this machine
            return
        url = urlsplit(self.path)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _OF_CONNECTIONS}
        whole = "uploadId" in parse_qs(url.query) if self.command == "POST" else "partNumber=" not in url.query
        if whole and self.command != "DELETE":
            headers["If-None-Match"] = "*"
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        connection = self.kind(url.netloc, timeout=_PATIENCE)
        try:
            connection.request(self.command, f"{url.path}?{url.query}" if url.query else url.path, body, headers)
            answer = connection.getresponse()
            status, given, text = answer.status, answer.getheaders(), answer.read()
        except (OSError, HTTPException) as error:
            status, given, text = 502, [], str(error).encode()  # the client tries again
        finally:
            connection.close()
        self.send_response_only(status)
        for name, value in given:
            if name.lower() not in {*_OF_CONNECTIONS, "content-length"}:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_DELETE = do_PUT

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  its name in the base class
        """Log nothing."""


def _start_proxy(scheme: str) -> str:
    """The address of a new proxy of this process, by which requests go on with that scheme."""
    kind = HTTPSConnection if scheme == "https" else HTTPConnection
    token = token_hex()
    login = f"Basic {b64encode(f'unskew:{token}'.encode()).decode()}"
    handler = type("Handler", (_CreateProxyHandler,), {"kind": kind, "login": login})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="unskew-s3", daemon=True).start()
    return f"http://unskew:{token}@127.0.0.1:{server.server_port}"


@cache
def _connect_files(
    _process: int, bucket: str, access: tuple[tuple[str, str], ...], *, creating: bool = False
) -> fs.S3FileSystem:
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
        scheme="http" if creating else scheme,  # to the proxy
        proxy_options=_start_proxy(scheme) if creating else None,
        endpoint_override=endpoint.rstrip("/") or None,
        allow_delayed_open=True,  # a small file is one PUT instead of three requests
        background_writes=False,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
    )
