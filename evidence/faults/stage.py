"""What runs under faults, and all that it needs: brokers, InfluxDB, cluster, producer, driver, and a small disk."""

import shutil
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from confluent_kafka.admin import AdminClient

from evidence.faults.driver import BatchLog, Driver
from evidence.faults.leaders import REPLICATED
from evidence.faults.preloaded import Clock, Listing
from evidence.faults.proxy import OUTSIDE, Proxy, free_ports
from evidence.faults.waiting import await_condition
from evidence.speed import processes
from tests.oracle import truth
from tests.oracle.truth import Record, Verdict
from unskew.deploy.servers.broker import Broker
from unskew.deploy.servers.influxdb import InfluxDBServer
from unskew.deploy.servers.spark_cluster import SparkCluster
from unskew.errors import EnvironmentFault
from unskew.kafka.connection import Connection
from unskew.kafka.topics import end_offsets, ensure_topic, list_topics
from unskew.loopback import LOOPBACK

TOPIC = "faults"
_DISK_MB = 640  # keyed_map by D_CHOICES comes to more than 160
_RETAINED = 20  # batches that Spark keeps; with its default, 100, a checkpoint would grow until the run ends
_MEMORY_MB = 768  # of the driver's JVM, and of each executor
# Since Kafka 3.6 a broker itself refuses messages from the future, by default.
_LENIENT = {"message.timestamp.after.max.ms": str(2**63 - 1)}
# A transaction that its producer has left is aborted when its time is over, and not up to ten seconds later.
_BROKER = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}
# A driver that is started beside another one, or soon after, takes the next port of each kind.
_DRIVERS = 8
#: Options of a JVM that starts fast and lives for minutes.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_PATIENCE = 240.0  # s
_FEW = 300  # messages
_LOOK_EVERY = 0.5  # s


class Contestant(ABC):
    """What runs under the faults.

    ``name``: What it is, in words. ``grouping``: Its grouping. ``lacks``: Kinds of faults that nothing is promised for,
    or that can't reach it. ``sources``: How many partitions its source topic has at first: many where the sources share
    plans. ``more_batches``: After so many batches beyond the one that took the last message all is written; None: the
    program drains by itself (``--until drained``).
    """

    grouping: str
    lacks: tuple[str, ...] = ()

    @property
    def sources(self) -> int:
        return 8 if self.grouping == "PLANNED" else 3

    @property
    def more_batches(self) -> int | None:
        return None

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is."""

    @abstractmethod
    def command(self, stage: "Stage") -> list[str]:
        """Program and arguments."""

    @abstractmethod
    def expected(self, stage: "Stage", records: Iterable[Record]) -> Any:
        """What must become of the source topic's messages, when batches have taken them all."""

    @abstractmethod
    def judge(self, stage: "Stage", expected: Any, *, abandoned: bool = False) -> Verdict:
        """What became of them, judged against that; ``abandoned`` as for ``tests.oracle.truth.judge``."""


class Stage:
    """Everything that a run consists of, as a context manager; ``tend`` has to be called several times a second.

    ``folder``: The folder of logs and data. ``seed``: Of the messages. ``contestant``: What the driver runs. ``rate``:
    Valid messages a second. ``influxdb``, ``disk``, ``preloaded``, ``proxied``, ``replicated``: Whether there is an
    InfluxDB, a small disk of the checkpoint's own, a clock of the driver's own and lists of the executors' own, proxies
    between the query and the brokers, and between executors and the driver, and a second broker, with a replica of each
    partition.
    ``broker``, ``second``: The broker that is also the only controller, and the other one. ``verdict``: What became of
    the messages of the topics that were judged. ``past_batches``: Batches that were committed to checkpoints of earlier
    topics. ``refusals``: What the driver said, each time that it refused a topic that had been made again.
    ``unrefused``: Times that it didn't.
    """

    topic = TOPIC

    def __init__(
        self,
        folder: Path,
        seed: int,
        contestant: Contestant,
        rate: float,
        *,
        influxdb: bool,
        disk: bool,
        preloaded: bool,
        proxied: bool,
        replicated: bool,
    ) -> None:
        self.folder = folder
        self._seed, self._rate = seed, rate
        self.contestant = contestant
        self.disk = folder / "disk"
        self.checkpoint = self.disk / "checkpoint"
        self.output = folder / "rows"
        self._small = disk
        # The brokers' ports: for us and the producer, and for the query, which goes through a proxy.
        brokers = 2 if replicated else 1
        ports = free_ports(2 * brokers)
        self.to_broker = Proxy(folder / "to-broker.log", ports[brokers:]) if proxied else None
        self.to_driver = Proxy(folder / "to-driver.log", free_ports(3 * _DRIVERS)) if proxied else None
        properties = _BROKER | (REPLICATED if replicated else {})

        def broker(number: int, beside: Broker | None = None) -> Broker:
            port = ports[number] if proxied else None
            two = _two_listeners(ports[number], ports[brokers + number]) if proxied else {}
            name = f"kafka-{number + 1}" if beside else "kafka"
            return Broker(folder / name, port=port, properties=properties | two, beside=beside)

        self.broker = broker(0)
        self.second = broker(1, beside=self.broker) if replicated else None
        self.influxdb = InfluxDBServer(folder / "influxdb") if influxdb else None
        # A second driver gets executors beside those of the first.
        self.cluster = SparkCluster(folder / "cluster", workers=2, cores=4, memory_mb=2 * _MEMORY_MB)
        self.clock = Clock(folder) if preloaded else None
        self.listing = Listing(folder, self.disk) if preloaded else None
        self.batches = BatchLog(self.checkpoint, TOPIC)
        self.verdict = Verdict()
        self.refusals: list[str] = []
        self.unrefused = self.past_batches = 0
        self.lives = 0
        self._first_life = 1  # the first producer that has written to the present topic
        self._produces = True
        self.producer: subprocess.Popen[bytes] | None = None
        self.bursts: list[subprocess.Popen[bytes]] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Start the servers, and make the topic; the driver and the producer start when ``tend`` is called."""
        self.disk.mkdir(parents=True)
        if self._small:
            mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_MB}m", "checkpoint", str(self.disk)]
            subprocess.run(mount, check=True)
            self._stack.callback(subprocess.run, ["umount", "--lazy", str(self.disk)], check=False)
        servers = self.broker, self.second, self.influxdb, self.cluster, self.to_broker, self.to_driver
        for server in filter(None, servers):
            self._stack.enter_context(server)
        self.connection = Connection(self._direct_servers)
        ensure_topic(self.connection, TOPIC, self.contestant.sources, _LENIENT)
        self.driver = Driver(self.contestant.command(self), self.folder, self.checkpoint, self._environment())
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the servers in good order; the driver and the producers are ended by the campaign's command."""
        self._stack.close()

    @property
    def bootstrap_servers(self) -> str:
        """Where the query reaches the brokers."""
        if self.to_broker is None:
            return self._direct_servers
        return ",".join(f"{OUTSIDE}:{port}" for port in self.to_broker.ports)

    @property
    def _direct_servers(self) -> str:
        """Where we and the producer reach the brokers."""
        return ",".join(each.bootstrap_servers for each in (self.broker, self.second) if each is not None)

    @property
    def bursting(self) -> bool:
        """Whether a burst is still being sent."""
        return any(burst.poll() is None for burst in self.bursts)

    @property
    def conf(self) -> dict[str, str]:
        """Spark's settings."""
        options = self.cluster.conf["spark.executor.extraJavaOptions"]
        lists = self.listing.environment if self.listing else {}
        return {
            **self.cluster.conf,
            "spark.executor.extraJavaOptions": f"{SHORT_LIVED} {options}",
            "spark.executor.memory": f"{_MEMORY_MB}m",
            "spark.executor.cores": "2",
            "spark.cores.max": "4",
            "spark.driver.memory": f"{_MEMORY_MB}m",
            "spark.sql.streaming.minBatchesToRetain": str(_RETAINED),
            **{f"spark.executorEnv.{name}": value for name, value in lists.items()},
            **(_advertised(self.to_driver.ports) if self.to_driver else {}),
        }

    def tend(self) -> None:
        """Start driver and producer again where they have ended; note the batches that were committed."""
        self.driver.tend()
        if self._produces and (self.producer is None or self.producer.poll() is not None):
            self.producer = self._produce()
        self.batches.follow()

    def pass_time(self, seconds: float) -> None:
        """Tend to the run for so long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.tend()
            time.sleep(0.1)

    def burst(self, kind: str, number: int) -> subprocess.Popen[bytes]:
        """Start a process that sends a burst of a kind of messages (of the producer's ``BURSTS``), and how many."""
        self.bursts.append(self._produce("--burst", kind, str(number)))
        return self.bursts[-1]

    def end_production(self, patience: float = 120) -> None:
        """Wait until all bursts have been sent, then end the producer."""
        self._produces = False
        for burst in self.bursts:
            burst.wait(patience)
        if self.producer is not None:
            self.producer.kill()
            self.producer.wait()
        self.bursts.clear()
        time.sleep(3)  # the producer's last messages may still arrive, and a transaction's time be over

    def all_taken(self) -> bool:
        """Whether committed batches have taken all messages that the topic has."""
        self.batches.follow()
        taken = self.batches.taken()
        return all(taken.get(partition, 0) >= end for partition, end in end_offsets(self.connection, TOPIC).items())

    def expected(self) -> tuple[Any, int]:
        """What must become of the topic's messages, as the contestant says, and how many acknowledged ones it lacks."""
        there: dict[tuple[int, int], str] = {}
        records = self.following(truth.topic_records(self.connection, TOPIC))
        found = self.contestant.expected(self, truth.noting(records, there))
        lives = range(self._first_life, self.lives + 1)
        return found, truth.missing((self.folder / f"acknowledged-{life}" for life in lives), there)

    def judge(self, expected: Any, acknowledged_missing: int, *, abandoned: bool = False) -> None:
        """Add to the verdict what became of the topic's messages."""
        verdict = self.contestant.judge(self, expected, abandoned=abandoned)
        verdict.acknowledged_missing = acknowledged_missing
        self.verdict += verdict
        if not verdict.exact:
            kept = self.folder / f"{self.checkpoint.name}-judged"  # its disk goes with the run
            shutil.copytree(self.checkpoint, kept, dirs_exist_ok=True, ignore_dangling_symlinks=True)

    def remake(self, *, under: bool, outgrown: bool) -> None:
        """Delete the topic and make it again, see that the run is refused, and begin another with another checkpoint.

        ``under``: Whether the driver runs meanwhile. ``outgrown``: Whether the new topic has more messages in each
        partition than the old one, or fewer.
        Raises EnvironmentFault: The run doesn't take the rest of the topic's messages; the topic isn't deleted then.
        """
        self.end_production()
        if not await_condition(self.all_taken, _PATIENCE, self.pass_time, 0.5):
            self._produces = True
            raise EnvironmentFault(f"its messages aren't taken within {_PATIENCE:.0f} s")
        expected = self.expected()
        if not under:
            self.driver.ask_to_end()
            self._await_end()
        ends = end_offsets(self.connection, TOPIC)
        self._first_life = self.lives + 1
        self._delete(lambda name: name == TOPIC)
        ensure_topic(self.connection, TOPIC, self.contestant.sources, _LENIENT)
        messages = self.contestant.sources * (max(ends.values()) + 100) if outgrown else _FEW
        self._produce("--burst", "malformed", str(messages)).wait()
        ended = self._await_end()
        self.driver.start()
        refused = self._await_end()
        refusal = self.driver.ends[-1]
        went_on = any(end > ends.get(partition, 0) for partition, end in self.batches.taken().items())
        if not (ended and refused) or refusal.code <= 0 or refusal.traceback or went_on:
            self.unrefused += 1
        self.refusals.append(refusal.line)
        self.judge(*expected, abandoned=True)
        self._begin_anew()

    def _await_end(self) -> bool:
        """Wait for the driver's end; False: it was killed, as it doesn't end."""

        def ended() -> bool:
            self.batches.follow()
            return self.driver.pid is None

        by_itself = await_condition(ended, _PATIENCE)
        self.driver.kill()
        self.driver.wait(_PATIENCE)
        self.batches.follow()
        return by_itself

    def following(self, records: Iterable[Record]) -> Iterator[Record]:
        """Hand on a topic's records, and meanwhile note the batches that the driver goes on to commit."""
        looked = time.monotonic()
        for record in records:
            yield record
            if time.monotonic() - looked > _LOOK_EVERY:
                self.batches.follow()
                looked = time.monotonic()

    def _begin_anew(self) -> None:
        """Delete the results and the checkpoint of the run so far, and let the driver begin another one."""
        self._delete(lambda name: name.startswith(f"{TOPIC}-"))
        shutil.rmtree(self.checkpoint)
        self.checkpoint = self.disk / f"checkpoint-{self._first_life}"
        self.past_batches += self.batches.committed
        self.batches = BatchLog(self.checkpoint, TOPIC)
        self.driver.use(self.contestant.command(self), self.checkpoint)
        self._produces = True

    def _delete(self, which: Callable[[str], bool]) -> None:
        """Delete topics, and wait until they are gone."""
        names = [name for name in list_topics(self.connection) if which(name)]
        admin = AdminClient(self.connection.client())  # a name of its own: a client that is gone gives no answer
        for deleted in admin.delete_topics(names).values() if names else ():
            deleted.result()
        while {*names} & {*list_topics(self.connection)}:
            time.sleep(0.2)
        time.sleep(1)  # until both brokers know

    def _produce(self, *more: str) -> subprocess.Popen[bytes]:
        self.lives += 1
        note = self.folder / f"acknowledged-{self.lives}"
        given = [self._direct_servers, TOPIC, str(self.lives), str(self._seed), str(self._rate), str(note)]
        with (self.folder / "producer.log").open("ab") as log:
            return processes.start([sys.executable, "-m", "evidence.faults.producer", *given, *more], log)

    def _environment(self) -> dict[str, str]:
        found = {"SPARK_SUBMIT_OPTS": SHORT_LIVED, **(self.clock.environment if self.clock else {})}
        if self.influxdb:
            found |= {
                "INFLUXDB_V2_URL": self.influxdb.url,
                "INFLUXDB_V2_TOKEN": self.influxdb.token,
                "INFLUXDB_V2_ORG": self.influxdb.org,
                "INFLUXDB_V2_BUCKET": self.influxdb.bucket,
            }
        return found


def _two_listeners(direct: int, proxied: int) -> dict[str, str]:
    """The properties of a broker that has a second port, which it says is to be reached by the proxy's address."""
    return {
        "listeners": f"PROXIED://{LOOPBACK}:{proxied}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{direct},PROXIED://{OUTSIDE}:{proxied}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT",
    }


def _advertised(ports: range) -> dict[str, str]:
    """Spark's settings of a driver whose calls, blocks and planner are to be reached by the proxy's address."""
    return {
        "spark.driver.host": OUTSIDE,
        "spark.driver.port": str(ports[0]),
        "spark.driver.blockManager.port": str(ports[_DRIVERS]),
        "spark.unskew.planner.port": str(ports[2 * _DRIVERS]),
    }
