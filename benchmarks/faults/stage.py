"""All that a campaign runs: broker, InfluxDB, cluster, producer, driver, and the checkpoint on a small disk."""

import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from benchmarks.faults.batches import BatchLog
from benchmarks.faults.clock import Clock
from benchmarks.faults.plan import GROUPINGS, scene
from benchmarks.faults.supervisor import Driver
from unskew.deploy.client.connection import Connection
from unskew.deploy.client.topics import ensure_topic
from unskew.deploy.servers.broker import Broker
from unskew.deploy.servers.cluster import Cluster
from unskew.deploy.servers.influxdb import InfluxDB

TOPIC = "faults"
SOURCES, WORKERS = 3, 4
WINDOW_MS = 10_000
_LATENESS = 60  # s: a broker or producer that is stopped delays some messages, not others
_DISK_MB = 160
_BATCH = 20_000  # messages at most
_RETAINED = 20  # batches that Spark keeps in the checkpoint; by its default, 100, a run would end while it still grows
_MEMORY_MB = 768  # of the driver's JVM, and of each executor
# Since 3.6 a broker refuses messages from the future itself, unless told.
_LENIENT = {"message.timestamp.after.max.ms": str(2**63 - 1)}
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Stage:
    """Everything that runs, as a context manager; ``tend`` has to be called all the time.

    Parameters
    ----------
    folder : Path
        For logs and data.
    seed : int
        Chooses the grouping, and the time that windows are by.
    rate : float
        Valid messages a second.
    influxdb, disk, clock : bool
        Whether there is one: an InfluxDB, a small disk of the checkpoint's own, a clock of the driver's own.

    """

    def __init__(self, folder: Path, seed: int, rate: float, *, influxdb: bool, disk: bool, clock: bool) -> None:
        self.folder = folder
        self._seed, self._rate = seed, rate
        self.grouping, self.time = scene(seed)
        self.disk = folder / "disk"
        self.checkpoint = self.disk / "checkpoint"
        self._small = disk
        self.broker = Broker(folder / "kafka")
        self.influxdb = InfluxDB(folder / "influxdb") if influxdb else None
        self.cluster = Cluster(folder / "cluster", workers=2, cores=2, memory_mb=_MEMORY_MB)
        self.clock = Clock(folder) if clock else None
        self.batches = BatchLog(self.checkpoint, TOPIC)
        self.lives = 0
        self.producer: subprocess.Popen[bytes] | None = None
        self.bursts: list[subprocess.Popen[bytes]] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Start all of it."""
        self.disk.mkdir(parents=True)
        if self._small:
            mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_MB}m", "checkpoint", str(self.disk)]
            subprocess.run(mount, check=True)
            self._stack.callback(subprocess.run, ["umount", "--lazy", str(self.disk)], check=False)
        for server in filter(None, (self.broker, self.influxdb, self.cluster)):
            self._stack.enter_context(server)
        self.connection = Connection(self.broker.bootstrap_servers)
        ensure_topic(self.connection, TOPIC, SOURCES, _LENIENT)
        self.driver = Driver(self._command(), self.folder, self.checkpoint, self._environment())
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the servers in good order; what else runs is ended by whoever started the campaign."""
        self._stack.close()

    @property
    def name(self) -> str:
        """The run's, of which its topics' names are made."""
        return f"{TOPIC}-s{SOURCES}-w{WORKERS}-{GROUPINGS[self.grouping][0]}"

    def tend(self) -> None:
        """Start again what has ended and should run; note what has been committed."""
        self.driver.tend()
        if self.producer is None or self.producer.poll() is not None:
            self.producer = self._produce()
        self.batches.follow()

    def pass_time(self, seconds: float) -> None:
        """Tend for so long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.tend()
            time.sleep(0.1)

    def burst(self, messages: int) -> None:
        """Send malformed messages, from a process of its own."""
        self.bursts.append(self._produce("--malformed", str(messages)))

    def end_production(self, patience: float = 120) -> None:
        """No more messages come, when those of bursts have arrived."""
        for burst in self.bursts:
            burst.wait(patience)
        if self.producer is not None:
            self.producer.kill()
            self.producer.wait()
        time.sleep(3)  # what it had sent may still arrive

    def notes(self) -> list[Path]:
        """What the producers noted as acknowledged."""
        return sorted(self.folder.glob("acknowledged-*"))

    def _produce(self, *more: str) -> subprocess.Popen[bytes]:
        self.lives += 1
        note = self.folder / f"acknowledged-{self.lives}"
        given = [self.broker.bootstrap_servers, TOPIC, str(self.lives), str(self._seed), str(self._rate), str(note)]
        with (self.folder / "producer.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "benchmarks.faults.producer", *given, *more],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def _command(self) -> list[str]:
        settings = {
            **self.cluster.conf,
            "spark.executor.extraJavaOptions": f"{_SHORT_LIVED} {self.cluster.conf['spark.executor.extraJavaOptions']}",
            "spark.driver.memory": f"{_MEMORY_MB}m",
            "spark.sql.streaming.minBatchesToRetain": str(_RETAINED),
        }
        by = ["--time", "event", "--lateness", str(_LATENESS)] if self.time == "event" else []
        return [
            *("topology", "CLUSTER", "COUNTRY_SKEW_R80", self.grouping, TOPIC, str(SOURCES), str(WORKERS), "x0"),
            *("--master", self.cluster.master, "--checkpoint", str(self.checkpoint)),
            *("--bootstrap-servers", self.broker.bootstrap_servers, "--window", str(WINDOW_MS / 1000), *by),
            *("--max-tuples", str(_BATCH), *GROUPINGS[self.grouping][1:]),
            *(f"--conf={name}={value}" for name, value in settings.items()),
        ]

    def _environment(self) -> dict[str, str]:
        found = {"SPARK_SUBMIT_OPTS": _SHORT_LIVED, **(self.clock.environment if self.clock else {})}
        if self.influxdb:
            found |= {
                "INFLUXDB_V2_URL": self.influxdb.url,
                "INFLUXDB_V2_TOKEN": self.influxdb.token,
                "INFLUXDB_V2_ORG": self.influxdb.org,
                "INFLUXDB_V2_BUCKET": self.influxdb.bucket,
            }
        return found
