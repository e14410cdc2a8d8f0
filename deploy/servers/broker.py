"""A Kafka broker in a separate JVM: a KRaft node on the loopback interface, for trying out and for tests."""

import base64
import re
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path

from unskew.deploy.installation import class_data
from unskew.deploy.installation.jars import broker_jars
from unskew.deploy.installation.machine import find_java
from unskew.deploy.servers.server import PortTakenError, ServerProcess
from unskew.errors import EnvironmentFault
from unskew.file_locks import write_private
from unskew.kafka.embedded_broker import KIND
from unskew.loopback import LOOPBACK, free_port, is_free

_LOGGING = Path(__file__).with_name("broker-log4j2.xml")
_SETTINGS = "broker.properties"
_CONTROLLER = 1  # the node that is its cluster's only controller
# Why the broker can't start: text in its log → message for the user, with what to do.
_CAUSES = (
    (r"Address already in use", "its port is in use by another program; stop that, or choose another port"),
    (r"No space left on device", "no space is left on the disk; make room, or choose another directory"),
    (r"AccessDeniedException|Permission denied", "its directory isn't writable; choose another one"),
    (r"OutOfMemoryError|Could not reserve enough space", "there isn't enough memory; end other programs"),
)


class Broker(ServerProcess):
    """An embedded broker, which as a context manager runs inside the block.

    Acknowledged records survive `stop`, `kill` and `restart`. A later `Broker` on the same directory has them, too, and
    the same port, unless another program has taken it. Unless the broker is `detached`, its process ends with ours,
    however ours ends.

    A broker is a separate cluster, unless it is started `beside` another one. Only a cluster's first broker is a
    controller: while it is down, the others elect no leaders, and can't start.

    Parameters
    ----------
    data, port
        The directory, of topics, settings and log, and the port of `ServerProcess`.
    properties
        More broker properties. `listeners` adds to the broker's.
    heap_mb
        The JVM's heap limit, MiB. With the default, the process takes about 210 MB.
    beside
        The broker whose cluster this one joins, with the next node id. That one must have been started. Topics still
        have one replica each, unless `properties` of all brokers change that.

    Examples
    --------
    >>> import tempfile
    >>> from confluent_kafka.admin import AdminClient
    >>> with tempfile.TemporaryDirectory() as data, Broker(Path(data)) as broker:  # doctest: +SKIP
    ...     sorted(AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=5).topics)
    []
    """

    name = KIND

    def __init__(
        self,
        data: Path,
        *,
        port: int | None = None,
        properties: Mapping[str, str] | None = None,
        heap_mb: int = 256,
        beside: "Broker | None" = None,
    ) -> None:
        super().__init__(data, port=port)
        self._beside = beside
        self.node_id: int = _CONTROLLER if beside is None else beside.node_id + 1
        self._properties = dict(properties or {})
        self._heap_mb = heap_mb

    @property
    def data(self) -> Path:
        """Its directory."""
        return self.directory

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` for clients, known from the first start on."""
        return self.listen_address

    @property
    def cluster_id(self) -> str:
        """Kafka's id of the data directory, which distinguishes brokers on the same port."""
        meta = self.data / "records" / "meta.properties"
        found = re.search(r"^cluster\.id=(\S+)$", meta.read_text(), re.MULTILINE) if meta.is_file() else None
        return found[1] if found else ""

    @property
    def controller_port(self) -> int | None:
        """The port of its cluster's controller in its settings. None before the first start."""
        settings = self.data / _SETTINGS
        shape = rf"^controller\.quorum\.voters={_CONTROLLER}@{re.escape(LOOPBACK)}:(\d+)$"
        found = re.search(shape, settings.read_text(), re.MULTILINE) if settings.is_file() else None
        return int(found[1]) if found else None

    def _command(self) -> list[str | Path]:
        java, jars = find_java(), broker_jars()
        settings = self.data / _SETTINGS
        port = int(self.listen_address.rpartition(":")[2])
        properties = _server_properties(
            self.data / "records", port, self._choose_controller_port(), self._properties, self.node_id
        )
        _write_properties(settings, properties)
        jvm = [
            java.launcher,
            f"-Xmx{self._heap_mb}m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",  # a short life: compile fast
            *class_data.jvm_options("broker"),
            "-Djava.awt.headless=true",
            f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
            f"-Dunskew.log={self.log}",
            *("-cp", ":".join(map(str, jars))),
        ]
        if not self.cluster_id:
            self._format(jvm, settings)
        return [*jvm, "kafka.Kafka", settings]

    def _choose_controller_port(self) -> int:
        """The controller's port of the last run, so that other brokers find it again, or a free one."""
        if self._beside is not None:
            if (known := self._beside.controller_port) is None:
                raise RuntimeError("the broker that this one is to join has not been started yet")
            return known
        known = self.controller_port
        return known if known is not None and is_free(known) else free_port()

    def _format(self, jvm: list[str | Path], settings: Path) -> None:
        # 22 letters like Kafka's ids; a leading "-" would look like an option.
        new = "u" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[:21]
        identity = new if self._beside is None else self._beside.cluster_id
        command = [*jvm, "kafka.tools.StorageTool", "format", "--ignore-formatted", "-t", identity, "-c", settings]
        with self.log.open("ab") as log:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            raise EnvironmentFault(
                f"the broker cannot format its storage: {self._cause(self._output())} (log: {self.log})"
            )

    def _answers(self) -> bool:
        # Imported here, because each command imports this module, and few need the client.
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.listen_address, "log_level": 0, "reconnect.backoff.max.ms": 200})
        try:
            found = admin.list_topics(timeout=1)
        except KafkaException:
            return False
        if found.cluster_id and found.cluster_id != self.cluster_id:  # another broker has our port
            raise PortTakenError(self._port)
        # A broker that joins others answers before the controller gives it leaders.
        return bool(found.cluster_id) and (self._beside is None or self.node_id in found.brokers)

    def _cause(self, output: str) -> str:
        for pattern, meaning in _CAUSES:
            if re.search(pattern, output):
                return meaning
        # The log has the cause before its consequences. A line that only announces a stack trace isn't one.
        errors = re.findall(r"^.*?\b(?:ERROR|FATAL|Exception in thread \S+|Caused by:)\s+(.+)$", output, re.MULTILINE)
        return errors[0].strip()[:300] if errors else super()._cause(output)

    def _announcement(self) -> dict[str, str]:
        return {"bootstrap_servers": self.listen_address}


def _server_properties(
    records: Path, port: int, controller_port: int, extra: Mapping[str, str] | None = None, node: int = _CONTROLLER
) -> dict[str, str]:
    """The properties of the broker with this id in its cluster, whose topics' data are in `records`.

    `extra` ones extend or replace ours. `listeners` adds to those that the broker needs.
    """
    extra = dict(extra or {})
    controls = node == _CONTROLLER
    listeners = [f"PLAINTEXT://{LOOPBACK}:{port}"]
    if controls:
        listeners.append(f"CONTROLLER://{LOOPBACK}:{controller_port}")
    if more := extra.pop("listeners", ""):
        listeners.append(more)
    return {
        "process.roles": "broker,controller" if controls else "broker",
        "node.id": str(node),
        "controller.quorum.voters": f"{_CONTROLLER}@{LOOPBACK}:{controller_port}",
        "listeners": ",".join(listeners),
        "listener.security.protocol.map": (
            "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
        ),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(records),
        # One node holds every replica.
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # A replayed data set has old times: by default Kafka would delete the messages within minutes.
        "log.retention.ms": "-1",
        # A misspelt topic should fail.
        "auto.create.topics.enable": "false",
        # Without these a restart after kill -9 takes 12 s, not 3: the controller waits for the dead session to expire.
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "500",
        "group.initial.rebalance.delay.ms": "0",
        # Few threads and little memory: the defaults are for a dedicated machine.
        "num.network.threads": "2",
        "num.io.threads": "4",
        "background.threads": "2",
        "num.recovery.threads.per.data.dir": "2",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "log.cleaner.dedupe.buffer.size": "4194304",
        "log.cleaner.io.buffer.size": "131072",
        **extra,
    }


def _write_properties(path: Path, properties: Mapping[str, str]) -> None:
    escaped = ((name, value.replace("\\", "\\\\").replace("\n", "\\n")) for name, value in properties.items())
    write_private(path, "".join(f"{name}={value}\n" for name, value in escaped))  # may contain passwords
