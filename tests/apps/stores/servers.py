"""An S3 and an HDFS as processes of our own: what checkpoints are tried on that lie elsewhere."""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from pyarrow import fs

from unskew.apps.checkpoint.place import Place
from unskew.deploy.installation.jars import described_jars, pyspark_home
from unskew.deploy.installation.java import find_java
from unskew.deploy.servers.server import Server

_ARCHIVES = Path(__file__).with_name("servers.xml")
# They live for a minute: code that is soon compiled beats code that is fast.
_LEAN = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
BUCKET = "bucket"


def _jars(configuration: str) -> list[Path]:
    return described_jars(_ARCHIVES, configuration, "S3Proxy and Hadoop's minicluster for tests", 2, "about 105 MB")


class S3(Server):
    """S3Proxy with one bucket, its objects in memory; it checks signatures."""

    name = "S3Proxy"
    user, secret = "unskew", "s3cret-of-tests"

    def place(self, name: str) -> Place:
        """A place in its bucket."""
        keys = {"fs.s3a.access.key": self.user, "fs.s3a.secret.key": self.secret}
        return Place(f"s3a://{BUCKET}/{name}", {"fs.s3a.endpoint": f"http://{self.listens}", **keys})

    @property
    def environment(self) -> dict[str, str]:
        """What its users have in theirs, as AWS's usual variables."""
        return {
            "AWS_ACCESS_KEY_ID": self.user,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_ENDPOINT_URL": f"http://{self.listens}",
        }

    def files(self) -> fs.S3FileSystem:
        """It, as pyarrow sees it."""
        keys = {"access_key": self.user, "secret_key": self.secret, "region": "us-east-1"}
        return fs.S3FileSystem(endpoint_override=self.listens, scheme="http", allow_bucket_creation=True, **keys)

    def requests(self) -> list[tuple[str, str]]:
        """All requests so far, as (method, path with query)."""
        return re.findall(r"request: Request\((\w+) http://[^/]+(\S*)\)@", self._said())

    def _command(self) -> list[str | Path]:
        settings = self.directory / "s3proxy.properties"
        settings.write_text(
            f"s3proxy.endpoint=http://{self.listens}\ns3proxy.authorization=aws-v2-or-v4\ns3proxy.identity={self.user}\n"
            f"s3proxy.credential={self.secret}\njclouds.provider=transient\n"
        )
        (archive,) = _jars("s3")
        return [find_java().launcher, *_LEAN, "-DLOG_LEVEL=debug", "-jar", archive, "--properties", settings]

    def _answers(self) -> bool:
        try:
            self.files().create_dir(BUCKET)
        except OSError:
            return False
        return True

    def _announcement(self) -> dict[str, str]:
        return {"endpoint": self.listens}


class Hdfs(Server):
    """A name node and a data node."""

    name = "HDFS"
    environment: Mapping[str, str] = {}

    def place(self, name: str) -> Place:
        """A place in it."""
        return Place(f"hdfs://{self.listens}/{name}")

    def _command(self) -> list[str | Path]:
        shipped = pyspark_home() / "jars"
        needed = ("hadoop-client-*", "slf4j-api-*", "jcl-over-slf4j-*", "log4j-*", "commons-*", "jackson-*")
        path = [*_jars("hdfs"), *(jar for pattern in needed for jar in sorted(shipped.glob(f"{pattern}.jar")))]
        source = Path(__file__).with_name("MiniHdfs.java")
        port = self.listens.rpartition(":")[2]
        return [
            find_java().launcher, *_LEAN, "-cp", ":".join(map(str, path)), source, port, self.directory / "data",
        ]  # fmt: skip

    def _answers(self) -> bool:
        return "ready" in self._said().splitlines()

    def _announcement(self) -> dict[str, str]:
        return {"address": f"hdfs://{self.listens}"}


def by_method(requests: list[tuple[str, str]]) -> str:
    """Requests counted, for people to read."""
    counted = Counter("LIST" if method == "GET" and "list-type" in path else method for method, path in requests)
    return ", ".join(f"{number} {method}" for method, number in sorted(counted.items()))
