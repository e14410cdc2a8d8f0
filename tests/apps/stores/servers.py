"""Stores as processes of the tests: checkpoints that are not on this disk. Hadoop also has executors on YARN."""

import base64
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
from azure.core.credentials import AzureNamedKeyCredential
from azure.core.exceptions import AzureError
from azure.storage.blob import ContainerClient
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from pyarrow import fs

from tests.programs.packages import azurite, fake_gcs
from tests.waiting import awaited
from unskew.apps.checkpoint.location import Location
from unskew.deploy.installation.jars import pyspark_home, resolve_jars
from unskew.deploy.installation.machine import find_java
from unskew.deploy.servers.server import ServerProcess
from unskew.loopback import LOOPBACK

_ARCHIVES = Path(__file__).with_name("servers.xml")
# They live for a minute: code that is soon compiled beats code that is fast.
_LEAN = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
BUCKET = "bucket"


def _jars(configuration: str) -> list[Path]:
    return resolve_jars(_ARCHIVES, configuration, "S3Proxy and Hadoop's minicluster for tests", 5, "about 115 MB")


class Store(ServerProcess):
    """A server whose address is all that its clients have to know."""

    def _announcement(self) -> dict[str, str]:
        return {"endpoint": self.listen_address}


class S3(Store):
    """S3Proxy with one bucket, its objects in memory; it checks signatures."""

    name = "S3Proxy"
    user, secret = "unskew", "s3cret-of-tests"
    settings: Mapping[str, str] = {}

    def location(self, name: str) -> Location:
        """A location in the bucket."""
        keys = {"fs.s3a.access.key": self.user, "fs.s3a.secret.key": self.secret}
        return Location(f"s3a://{BUCKET}/{name}", {"fs.s3a.endpoint": f"http://{self.listen_address}", **keys})

    @property
    def environment(self) -> dict[str, str]:
        """AWS's usual variables for its users' environment."""
        return {
            "AWS_ACCESS_KEY_ID": self.user,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_ENDPOINT_URL": f"http://{self.listen_address}",
        }

    def files(self, name: str) -> Iterator[tuple[str, bytes]]:
        """The paths and contents of all objects of a folder of the bucket."""
        client = self._client()
        for each in client.get_file_info(fs.FileSelector(f"{BUCKET}/{name}", recursive=True)):
            if each.type == fs.FileType.File:
                with client.open_input_stream(each.path) as stream:
                    yield each.path, stream.read()

    def _client(self) -> fs.S3FileSystem:
        keys = {"access_key": self.user, "secret_key": self.secret, "region": "us-east-1"}
        return fs.S3FileSystem(endpoint_override=self.listen_address, scheme="http", allow_bucket_creation=True, **keys)

    def requests(self) -> list[tuple[str, str]]:
        """All requests so far, as (method, path with query)."""
        return re.findall(r"request: Request\((\w+) http://[^/]+(\S*)\)@", self._output())

    def _command(self) -> list[str | Path]:
        settings = self.directory / "s3proxy.properties"
        settings.write_text(
            f"s3proxy.endpoint=http://{self.listen_address}\ns3proxy.authorization=aws-v2-or-v4\ns3proxy.identity={self.user}\n"
            f"s3proxy.credential={self.secret}\njclouds.provider=transient\n"
        )
        (archive,) = _jars("s3")
        return [find_java().launcher, *_LEAN, "-DLOG_LEVEL=debug", "-jar", archive, "--properties", settings]

    def _answers(self) -> bool:
        try:
            self._client().create_dir(BUCKET)
        except OSError:
            return False
        return True


class Google(Store):
    """fake-gcs-server with one bucket, its objects in memory. It takes any token, and none."""

    name = "fake-gcs-server"
    environment: Mapping[str, str] = {}

    @property
    def url(self) -> str:
        """Its URL for clients."""
        return f"http://{self.listen_address}"

    def location(self, name: str) -> Location:
        """A location in the bucket."""
        return Location(f"gs://{BUCKET}/{name}", self.settings)

    @property
    def settings(self) -> dict[str, str]:
        """Hadoop's settings to reach it. It knows no request that moves an object."""
        never = {"fs.gs.operation.move.enable": "false"}
        return {"fs.gs.storage.root.url": f"{self.url}/", "fs.gs.auth.type": "UNAUTHENTICATED", **never}

    def _command(self) -> list[str | Path]:
        host, _, port = self.listen_address.rpartition(":")
        urls = ("-external-url", self.url, "-public-host", self.listen_address)
        return [fake_gcs(), "-backend", "memory", "-scheme", "http", "-host", host, "-port", port, *urls]

    def _answers(self) -> bool:
        try:
            with socket.create_connection((LOOPBACK, int(self.listen_address.rpartition(":")[2])), timeout=1):
                pass  # Google's client tries for two minutes where nobody listens
        except OSError:
            return False
        client = storage.Client("tests", AnonymousCredentials(), client_options={"api_endpoint": self.url})
        client.create_bucket(BUCKET)
        return True


class Azure(Store):
    """Azurite with one container, its blobs in memory; it checks signatures."""

    name = "Azurite"
    user, secret = "unskew", base64.b64encode(b"s3cret-of-tests").decode()

    def location(self, name: str) -> Location:
        """A location in the container."""
        settings = {"fs.azure.account.key": self.secret, **self.settings}
        return Location(f"abfs://{BUCKET}@{self.user}.dfs.core.windows.net/{name}", settings)

    @property
    def settings(self) -> dict[str, str]:
        """Hadoop's settings to reach it, without the key. It has blobs, but no data lakes (`dfs`)."""
        blobs = {"fs.azure.fns.account.service.type": "BLOB", "fs.azure.account.hns.enabled": "false"}
        # Apache's client, Hadoop's default, fails without TLS.
        client = {"fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION"}
        return {"fs.azure.abfs.endpoint": self.listen_address, "fs.azure.always.use.https": "false", **blobs, **client}

    @property
    def environment(self) -> dict[str, str]:
        """The variable of Azure's own command."""
        return {"AZURE_STORAGE_KEY": self.secret}

    def files(self, name: str) -> Iterator[tuple[str, bytes]]:
        """The paths and contents of all blobs of a folder of the container."""
        with self._client() as client:
            for path in client.list_blob_names(name_starts_with=f"{name}/"):
                yield path, client.download_blob(path).readall()

    def _client(self) -> ContainerClient:
        key = AzureNamedKeyCredential(self.user, self.secret)
        return ContainerClient(f"http://{self.listen_address}/{self.user}", BUCKET, key, retry_total=0)

    def _command(self) -> list[str | Path]:
        host, _, port = self.listen_address.rpartition(":")
        # Azure's client speaks a newer version of the protocol than Azurite knows by name.
        flags = ("--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry")
        account = f"AZURITE_ACCOUNTS={self.user}:{self.secret}"
        return ["env", account, azurite(), "--blobHost", host, "--blobPort", port, *flags]

    def _answers(self) -> bool:
        try:
            with self._client() as client:
                client.create_container()
        except AzureError:
            return False
        return True


class Hadoop(ServerProcess):
    """HDFS, a name node and a data node; and YARN, once somebody asks for it.

    YARN's nodes find programs in the folder `programs` first.
    """

    name = "Hadoop"
    environment: Mapping[str, str] = {}
    settings: Mapping[str, str] = {}

    @property
    def programs(self) -> Path:
        """For programs that the nodes have by their names, as python3."""
        return self.directory / "programs"

    def location(self, name: str) -> Location:
        """A location in the file system."""
        return Location(f"hdfs://{self.listen_address}/{name}")

    def yarn(self) -> Path:
        """`HADOOP_CONF_DIR` of YARN, which is started now unless it runs."""
        self._configuration.mkdir(exist_ok=True)
        awaited(lambda: "yarn ready" in self._output().splitlines() or not self.alive, "YARN")
        assert self.alive, self._output()
        return self._configuration

    def executors(self) -> list[psutil.Process]:
        """Spark's executors that YARN runs now."""
        return [each for each in psutil.Process(self.pid).children(recursive=True) if _is_executor(each)]

    @property
    def _configuration(self) -> Path:
        return self.directory / "configuration"

    def _command(self) -> list[str | Path]:
        shipped = pyspark_home() / "jars"
        needed = ("hadoop-client-*", "slf4j-api-*", "jcl-over-slf4j-*", "log4j-*", "commons-*", "jackson-*")
        path = [*_jars("hadoop"), *(jar for pattern in needed for jar in sorted(shipped.glob(f"{pattern}.jar")))]
        source = Path(__file__).with_name("MiniHadoop.java")
        port = self.listen_address.rpartition(":")[2]
        return [
            *(find_java().launcher, *_LEAN, "-cp", ":".join(map(str, path)), source, port),
            *(self.directory / "data", self._configuration, self.programs),
        ]

    def _answers(self) -> bool:
        return "ready" in self._output().splitlines()

    def _announcement(self) -> dict[str, str]:
        return {"address": f"hdfs://{self.listen_address}"}


def _is_executor(process: psutil.Process) -> bool:
    try:
        # The class is in the command line of the shells that start the JVM, too.
        return process.name() == "java" and any("ExecutorBackend" in word for word in process.cmdline())
    except psutil.Error:  # it has ended
        return False
