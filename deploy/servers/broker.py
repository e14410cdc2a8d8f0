"""A real Kafka broker in a JVM of its own: one KRaft node on the loopback interface, for trying out and for tests."""

import base64
import re
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path

from unskew.deploy.installation import class_data
from unskew.deploy.installation.jars import broker_jars
from unskew.deploy.installation.java import find_java
from unskew.deploy.servers.broker_config import server_properties, write_properties
from unskew.deploy.servers.broker_faults import explain
from unskew.deploy.servers.ports import free_port
from unskew.deploy.servers.server import PortTakenError, Server
from unskew.errors import EnvironmentFault

_LOGGING = Path(__file__).with_name("broker-log4j2.xml")


class Broker(Server):
    """An embedded broker; as a context manager it runs inside the block.

    Acknowledged records survive `stop`, `kill` and `restart`, and a later `Broker` on the same directory has them. The
    address is chosen at the first start and kept by this object's later ones, so that clients find it again. The
    process ends with ours, however that ends, unless it is `detached`.

    Parameters
    ----------
    data
        Its directory: topics, settings and log. Two brokers can't share one.
    port
        Where clients connect; a free port by default.
    properties
        More broker properties; `listeners` adds to the broker's own.
    heap_mb
        The JVM's heap limit, MiB; the whole process is near 210 MB with the default.

    Examples
    --------
    >>> import tempfile
    >>> from confluent_kafka.admin import AdminClient
    >>> with tempfile.TemporaryDirectory() as data, Broker(Path(data)) as broker:  # doctest: +SKIP
    ...     sorted(AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=5).topics)
    []
    """

    name = "broker"

    def __init__(
        self,
        data: Path,
        *,
        port: int | None = None,
        properties: Mapping[str, str] | None = None,
        heap_mb: int = 256,
    ) -> None:
        super().__init__(data, port=port)
        self._properties = dict(properties or {})
        self._heap_mb = heap_mb

    @property
    def data(self) -> Path:
        """Its directory."""
        return self.directory

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` for clients; known from the first start on."""
        return self.listens

    @property
    def cluster_id(self) -> str:
        """What tells this broker from another one on the same port; one per data directory."""
        meta = self.data / "records" / "meta.properties"
        found = re.search(r"^cluster\.id=(\S+)$", meta.read_text(), re.MULTILINE) if meta.is_file() else None
        return found[1] if found else ""

    def _command(self) -> list[str | Path]:
        java, jars = find_java(), broker_jars()
        settings = self.data / "broker.properties"
        port = int(self.listens.rpartition(":")[2])
        write_properties(settings, server_properties(self.data / "records", port, free_port(), self._properties))
        jvm = [
            java.launcher,
            f"-Xmx{self._heap_mb}m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",  # a short life: compile fast
            *class_data.options("broker"),
            "-Djava.awt.headless=true",
            f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
            *("-cp", ":".join(map(str, jars))),
        ]
        if not self.cluster_id:
            self._format(jvm, settings)
        return [*jvm, "kafka.Kafka", settings]

    def _format(self, jvm: list[str | Path], settings: Path) -> None:
        # 22 letters as Kafka's own ids; a leading "-" would be taken for an option.
        identity = "u" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[:21]
        command = [*jvm, "kafka.tools.StorageTool", "format", "--ignore-formatted", "-t", identity, "-c", settings]
        with self.log.open("ab") as log:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            raise EnvironmentFault(f"the broker cannot format its storage: {explain(self._said())} (log: {self.log})")

    def _answers(self) -> bool:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.listens, "log_level": 0, "reconnect.backoff.max.ms": 200})
        try:
            answered = admin.list_topics(timeout=1).cluster_id
        except KafkaException:
            return False
        if answered and answered != self.cluster_id:  # it listens on our port, so ours can't
            raise PortTakenError(self._port)
        return bool(answered)

    def _explain(self, said: str) -> str:
        return explain(said)

    def _announcement(self) -> dict[str, str]:
        return {"bootstrap_servers": self.listens}
