"""A real Kafka broker in a JVM of its own: one KRaft node on the loopback interface, for trying out and for tests."""

import base64
import re
import subprocess
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from deploy.broker_config import server_properties, write_properties
from deploy.broker_faults import explain
from deploy.broker_lock import locked, write_address
from deploy.child import Child
from deploy.errors import EnvironmentFault
from deploy.jars import broker_jars
from deploy.java import find_java
from deploy.ports import LOOPBACK, free_port, is_free

_LOGGING = Path(__file__).with_name("broker-log4j2.xml")
_ATTEMPTS = 3


class Broker:
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

    def __init__(
        self,
        data: Path,
        *,
        port: int | None = None,
        properties: Mapping[str, str] | None = None,
        heap_mb: int = 256,
    ) -> None:
        self.data = data.absolute()
        self.log = self.data / "broker.log"
        self._port = port
        self._properties = dict(properties or {})
        self._heap_mb = heap_mb
        self._child: Child | None = None
        self._log_start = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` for clients; known from the first start on."""
        if self._port is None:
            raise RuntimeError("the broker has not been started yet")
        return f"{LOOPBACK}:{self._port}"

    @property
    def pid(self) -> int:
        """The JVM's process id; the broker must have been started."""
        if self._child is None:
            raise RuntimeError("the broker is not running")
        return self._child.pid

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self._child is not None and self._child.alive

    @property
    def cluster_id(self) -> str:
        """What tells this broker from another one on the same port; one per data directory."""
        meta = self.data / "records" / "meta.properties"
        found = re.search(r"^cluster\.id=(\S+)$", meta.read_text(), re.MULTILINE) if meta.is_file() else None
        return found[1] if found else ""

    def start(self, *, timeout: float = 60, detached: bool = False) -> None:
        """Start it and wait until it answers; a broker that runs is left alone.

        Parameters
        ----------
        timeout
            Seconds to wait; 2 to 9 are usual.
        detached
            Let it outlive this process.

        Raises
        ------
        EnvironmentFault
            No Java, no jars, no room, a port or directory that is taken, or no answer in time.
        """
        if self.alive:
            return
        attempts = _ATTEMPTS if self._port is None else 1
        while True:
            attempts -= 1
            try:
                self._launch(detached=detached)
                self._await_ready(timeout)
            except _PortTakenError as taken:
                self.kill()
                if not attempts:
                    raise EnvironmentFault(str(taken)) from None
                self._port = None  # it was snatched between our choosing and the broker's binding
            except BaseException:
                self.kill()
                raise
            else:
                write_address(self.data, self.bootstrap_servers, self.pid)
                return

    def stop(self) -> None:
        """Stop it in good order (half a second as a rule); the data stay."""
        if self._child is not None:
            self._child.stop()
            self._child = None

    def kill(self) -> None:
        """End it at once, as a crash would (SIGKILL); the data stay."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def restart(self) -> None:
        """Stop and start again with the same data and address."""
        self.stop()
        self.start()

    def _launch(self, *, detached: bool) -> None:
        java, jars = find_java(), broker_jars()
        try:
            self.data.mkdir(parents=True, exist_ok=True)
            self.log.touch()
        except OSError as error:
            raise EnvironmentFault(f"cannot write the broker's data to {self.data}: {error.strerror}") from error
        with locked(self.data, patience=1) as lock:  # a look at who runs holds it for a moment
            if self._port is None:
                self._port = free_port()
            elif not is_free(self._port):
                raise _PortTakenError(self._port)
            settings = self.data / "broker.properties"
            own = server_properties(self.data / "records", self._port, free_port(), self._properties)
            write_properties(settings, own)
            jvm = [
                java.launcher,
                f"-Xmx{self._heap_mb}m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",  # a short life: compile fast
                "-Djava.awt.headless=true",
                f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
                *("-cp", ":".join(map(str, jars))),
            ]
            if not self.cluster_id:
                self._format(jvm, settings)
            self._log_start = self.log.stat().st_size
            self._child = Child([*jvm, "kafka.Kafka", settings], self.log, detached=detached, keep_open=[lock])

    def _format(self, jvm: list[str | Path], settings: Path) -> None:
        # 22 letters as Kafka's own ids; a leading "-" would be taken for an option.
        identity = "u" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[:21]
        command = [*jvm, "kafka.tools.StorageTool", "format", "--ignore-formatted", "-t", identity, "-c", settings]
        with self.log.open("ab") as log:
            start = log.tell()
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            raise EnvironmentFault(explain(self.log, start, "the broker cannot format its storage"))

    def _await_ready(self, timeout: float) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        admin = AdminClient(
            {"bootstrap.servers": self.bootstrap_servers, "log_level": 0, "reconnect.backoff.max.ms": 200}
        )
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if not self.alive:
                fault = explain(self.log, self._log_start, "the broker ended while starting")
                if "in use" in fault:
                    raise _PortTakenError(self._port)
                raise EnvironmentFault(fault)
            try:
                answered = admin.list_topics(timeout=1).cluster_id
            except KafkaException:
                time.sleep(0.1)
                continue
            if answered == self.cluster_id:
                return
            if answered:  # it listens on our port, so ours can't
                raise _PortTakenError(self._port)
        raise EnvironmentFault(f"the broker did not answer within {timeout:g} s; its log is {self.log}")


class _PortTakenError(Exception):
    def __init__(self, port: int | None) -> None:
        super().__init__(f"port {port} is taken by another program; stop that, or choose another port")
