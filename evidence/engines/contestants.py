"""The contestants: how each is had, started, and read."""

import os
import re
import struct
import sys
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import orjson
import pyspark

from evidence.engines.environments import compile_programs, jars_of, python_of
from evidence.engines.jobs import LAST, LATENESS_MS, NO_AUCTION, STATISTICS, WINDOW_MS, Job, Place, ended, milliseconds
from evidence.engines.joins import code_pair
from evidence.engines.loads import ACCOUNT, of_distribution, of_flink, of_members, of_processes, of_spark, of_storm
from evidence.engines.matcher import write
from evidence.engines.running import Started
from evidence.speed.measuring import settings
from unskew.apps.driver.python_processes import prepare_python
from unskew.deploy.installation.jars import connector_jars
from unskew.deploy.installation.machine import find_java
from unskew.kafka.connection import Connection
from unskew.loopback import free_port

_HERE = Path(__file__).parent
_REMEMBERED = 86_400  # s: for how long ours remembers a key of the job ``distinct``, because a state must end


@dataclass(frozen=True)
class Contestant(ABC):
    """An engine, and how it does a job.

    ``name``: As the table has it. ``engine``: The folder of its programs. ``programs``: Kinds of jobs (``Job.kind``) →
    the program that does them: its file, or its class in Java. ``count``: The field of a record that has the count.
    ``account``: What reads the loads from the engine's own account in the contestant's folder, if there is one.
    ``nested``: Whether its programs read fields of nested objects, too.
    """

    engine: ClassVar[str]
    programs: ClassVar[Mapping[str, str]]
    count: ClassVar[str] = "count"
    account: ClassVar[Callable[[Path], list[int]] | None] = None
    nested: ClassVar[bool] = True
    name: str

    @property
    def slug(self) -> str:
        """Its name as a part of a topic's."""
        return self.name.lower().replace(", ", "-").replace(" ", "-")

    @abstractmethod
    def version(self) -> str:
        """Its version. It is installed where it isn't.

        Raises Unavailable: It can't be had here.
        """

    def between(self, job: Job, topic: str, output: str) -> str:
        """The topic between reading and counting, whose partitions show the loads. Empty: there is none."""
        return ""

    def closes(self, job: Job, topic: str, output: str) -> str:
        """The topic that must get a last message of each partition once all others are read. Empty: none must."""
        return ""

    def reads(self, job: Job, topic: str) -> str:
        """The topic that it reads: it may be the one that has a last message, too."""
        return topic

    def does(self, job: Job) -> bool:
        """Whether it has a program for a job."""
        reads = self.nested or bool(job.query) or len(job.path) == 1
        return reads and any(job.kind in kinds.split() for kinds in self.programs)

    def start(self, job: Job, bootstrap: str, topic: str, folder: Path) -> Started:
        """What starts it: a program, with the arguments that its usage names. ``folder`` is empty, and its own."""
        if job.shuffles:
            write(job.rules, folder)
        program = next(each for kinds, each in self.programs.items() if job.kind in kinds.split())
        source = _HERE / self.engine / (program if program.endswith(".py") else f"{program}.java")
        usage = re.search(rf"(?:python|java) {re.escape(program)} (.+)", source.read_text())
        assert usage is not None, "a program says how it is called"
        output = f"{topic}-{self.slug}-{folder.name}"
        values = self.values(job, folder) | {"BOOTSTRAP": bootstrap, "TOPIC": topic, "OUTPUT": output}
        values |= dict(zip(("LEFT", "RIGHT"), job.topics(topic), strict=False))
        command = [*self.command(program), *(values[name] for name in usage[1].split())]
        loads = None if self.account is None else partial(self.account, folder / ACCOUNT)
        if between := self.between(job, topic, output):
            loads = partial(of_members, Connection(bootstrap), output, between)
        return Started([*map(str, command)], output, loads=loads)

    @abstractmethod
    def command(self, program: str) -> Sequence[str | Path]:
        """What starts a program, without its arguments."""

    def values(self, job: Job, folder: Path) -> dict[str, object]:
        """The arguments' values by their names: the contestant's own fields, the job's, and folders."""
        own: dict[str, object] = {field.name.upper(): getattr(self, field.name) for field in fields(self)}
        of_job = {"QUERY": job.query, "FIELD": job.field, "GAP_MS": job.gap_ms, "COST_MS": job.cost_ms}
        of_job |= {"COST": job.cost, "LATE_MS": job.late_ms, "AIM": job.aim, "PARTITIONS": job.partitions}
        of_job |= {"WORKERS": job.workers, "SPOUTS": min(job.partitions, job.workers)}
        folders = {name.upper(): folder / name for name in ("state", "checkpoint", "checkpoints")}
        return own | of_job | folders | {"FOLDER": folder, "SEGMENTS": folder}

    def reading(self, job: Job) -> Callable[[bytes | None, bytes], Iterator[tuple[Place, int]]]:
        """What tells the results from a record of a job's output, its key and its value."""
        of = {"q5": self.hot_item, "q16": self.statistics, "q18": self.last_bid, "join": self.pair}
        return (of | {"distinct": self.first_seen, "shuffle": self.event}).get(job.kind, self.results)

    def results(self, key: bytes | None, value: bytes) -> Iterator[tuple[Place, int]]:
        """What a record of the output says: the count of a window and a key, which may be the record's own."""
        record = orjson.loads(value)
        yield (_read_start(record), record["key"] if key is None else key.decode()), record[self.count]

    def first_seen(self, key: bytes | None, value: bytes) -> Iterator[tuple[Place, int]]:
        """What a record of the job ``distinct`` says: the key that is its Kafka key was published."""
        yield (0, (key or b"").decode()), 1

    def event(self, key: bytes | None, value: bytes) -> Iterator[tuple[Place, int]]:
        """What a record of the jobs after ShuffleBench says: the consumer that is its Kafka key has so many records."""
        yield (struct.unpack_from(">q", value)[0], (key or b"").decode()), 1

    def last_bid(self, key: bytes | None, value: bytes) -> Iterator[tuple[Place, int]]:
        """What a record of the job ``last-bids`` says: the last bid is its value, or is in its value."""
        bid = orjson.loads(value)
        bid = bid.get("bid", bid)
        yield (0, f"{bid['bidder']}/{bid['auction']}"), milliseconds(bid["dateTime"])

    def hot_item(self, key: bytes | None, value: bytes) -> Iterator[tuple[Place, int]]:
        """What a record of the job ``hot-items`` says: an auction of a window has so many bids."""
        hot = orjson.loads(value)
        yield (_read_start(hot), LAST if hot["auction"] == NO_AUCTION else str(hot["auction"])), hot["num"]

    def statistics(self, key: bytes | None, value: bytes) -> Iterator[tuple[Place, int]]:
        """What a record of the job ``channels`` says: the statistics of a channel and day that aren't 0."""
        record = orjson.loads(value)
        of = f"{record['day']} {record['channel']}"
        yield from (((number, of), record[name]) for number, name in enumerate(STATISTICS) if record[name])

    def pair(self, key: bytes | None, value: bytes) -> Iterator[tuple[Place, int]]:
        """What a record of the job ``join`` says: a pair of a key, and what its ids make."""
        record = orjson.loads(value)
        yield (0, record["key"]), 1
        yield (1, record["key"]), code_pair(record["left"], record["right"])


def _read_start(record: Mapping[str, Any]) -> int:
    """The start of a record's window, in ms since the epoch: a number, or a date and time."""
    start = record["start"]
    return milliseconds(start) if isinstance(start, str) else start


class PythonEngine(Contestant):
    """One that is on PyPI: its requirements name it and its version."""

    count = "n"

    def version(self) -> str:
        python_of(self.engine)
        return (_HERE / self.engine / "requirements.txt").read_text().strip().replace("[kafka]", "")

    def command(self, program: str) -> Sequence[str | Path]:
        return [python_of(self.engine), _HERE / self.engine / program]


class JavaEngine(Contestant):
    """One whose programs are in Java.

    ``archive``: How the name of the archive begins that has its version. ``shared``: Sources beside its own.
    """

    archive: ClassVar[str]
    shared: ClassVar[tuple[str, ...]]

    def version(self) -> str:
        compile_programs(self.engine, *self.shared)
        (jar,) = (jar for jar in jars_of(self.engine) if jar.name.startswith(self.archive))
        return jar.stem.replace("-server", "")

    def command(self, program: str) -> Sequence[str | Path]:
        return [*compile_programs(self.engine, *self.shared), program]


class SparkQuery(Contestant):
    """A query of Spark's that imports from here."""

    def command(self, program: str) -> Sequence[str | Path]:
        return [sys.executable, _HERE / self.engine / program]

    def values(self, job: Job, folder: Path) -> dict[str, object]:
        return super().values(job, folder) | {"JARS": ",".join(map(str, connector_jars()))}

    def start(self, job: Job, bootstrap: str, topic: str, folder: Path) -> Started:
        path = os.pathsep.join([str(_HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
        variables = {"JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": self.interpreter(), "PYTHONPATH": path}
        return super().start(job, bootstrap, topic, folder)._replace(environment=variables)

    def interpreter(self) -> str:
        """The Python of Spark's workers."""
        return sys.executable

    def reads(self, job: Job, topic: str) -> str:
        return ended(topic) if job.closes else topic


@dataclass(frozen=True)
class Ours(SparkQuery):
    """`unskew topology` with a grouping, which is the contestant's name; or a query with `keyed_map`.

    ``emit``: When counts are published. With ``changes``, which the name says, too, only streams that go on are done.

    Such a query does the jobs after ShuffleBench, ``last-bids``, ``channels`` and ``join``. There is no program for
    ``hot-items``, because the topology's windows don't overlap. ``balanced_join`` does ``join`` alone.
    """

    engine = "ours"
    programs: ClassVar = {"shuffle": "shuffle.py", "q16": "channels.py", "q18": "last_bids.py", "join": "join.py"}
    emit: str = "final"

    def does(self, job: Job) -> bool:
        if self.emit == "changes":
            return bool(job.rate) and not job.stateful
        if job.joins or self.name == "balanced_join":
            return job.joins and self.name in ("KEY", "balanced_join")
        if job.query:
            return job.query != "q5" and self.name in ("KEY", "BOUNDED_LOAD")
        return job.shuffles or self.name != "MIXED"

    def version(self) -> str:
        return f"unskew {version('unskew')}, Spark {pyspark.__version__}"

    def interpreter(self) -> str:
        return prepare_python()

    def values(self, job: Job, folder: Path) -> dict[str, object]:
        return super().values(job, folder) | {"GROUPING": self.name, "FORM": self.name}

    def start(self, job: Job, bootstrap: str, topic: str, folder: Path) -> Started:
        if super().does(job):
            return super().start(job, bootstrap, topic, folder)
        grouping = self.name.partition(",")[0]
        # A field that isn't the dataset's own key is named, and so is a key that a work reads.
        named = job.stateful or len(job.path) > 1
        speed = 1 / job.cost_ms if job.cost_ms and job.cost == "sleep" else 0
        of = ["COLUMN" if named else job.source_type, grouping, topic, job.partitions, job.workers, f"x{speed:g}"]
        of += ["--time", "event", "--lateness", job.late_ms / 1000, "--emit", self.emit]
        of += ["--checkpoint", folder / "checkpoint", "--bootstrap-servers", bootstrap]
        # A stream that goes on has no end to drain it to, and its batches follow each other without a wait.
        of += ["--trigger", 0] if job.rate else ["--until", "drained"]
        # Two threads, as the others have, where tuples cost nothing.
        of += [] if job.cost_ms else ["--master", "local[2]"]
        of += ["-s", f"key={job.field}"] if named else []
        variables = {}
        if job.distinct:
            of += ["--work", "unskew.operators:Distinct", "--work-option", "id=key"]
            of += ["--work-option", f"ttl={_REMEMBERED}"]
        elif job.gap_ms:
            of += ["--work", "unskew.operators:Sessions", "--work-option", f"gap={job.gap_ms / 1000}"]
        else:
            of += ["--window", WINDOW_MS / 1000]
        if job.cost == "cpu":
            # As many a batch as all workers would have in a second, as it takes them by itself where they sleep.
            of += ["--work", "computing:count", "--max-tuples", round(1000 * job.workers / job.cost_ms)]
            path = os.pathsep.join([str(_HERE / "ours"), os.environ.get("PYTHONPATH", "")])
            variables = {"PYTHONPATH": path, "COST_MS": str(job.cost_ms)}
        connection = Connection(bootstrap)
        name = settings(connection, grouping, folder, topic=topic, sources=job.partitions, workers=job.workers).name
        output, report = f"{name}-{'results' if job.stateful else 'aggregator'}", f"{name}-distribution"
        command = [Path(sys.executable).with_name("unskew"), "topology", "LOCAL", *of]
        return Started([*map(str, command)], output, variables, partial(of_distribution, connection, report), report)

    def results(self, key: bytes | None, value: bytes) -> Iterator[tuple[Place, int]]:
        record = orjson.loads(value)
        fields = record["fields"]
        if "key" in record["tags"]:  # else it says that a window is closed
            yield (fields.get("start", record["timestamp"] - WINDOW_MS), record["tags"]["key"]), fields["count"]

    def first_seen(self, key: bytes | None, value: bytes) -> Iterator[tuple[Place, int]]:
        yield (0, orjson.loads(value)["tags"]["key"]), 1  # its Kafka key has more in it


@dataclass(frozen=True)
class Spark(SparkQuery):
    """Spark's own ``groupBy``, and its own join.

    ``salts``: Above 0: it does ``join`` alone. A left row gets a random one of so many salts, and a right row is there
    with each of them.
    """

    engine, account = "spark", staticmethod(of_spark)
    programs: ClassVar = {
        "count sessions work": "program.py",
        "distinct": "distinct.py",
        "shuffle": "shuffle.py",
        "join": "join.py",
        "q16": "channels.py",
        "q5 q18": "nexmark.py",
    }
    salts: int = 0

    def does(self, job: Job) -> bool:
        return job.joins or not self.salts

    def version(self) -> str:
        return f"pyspark {pyspark.__version__}"

    def start(self, job: Job, bootstrap: str, topic: str, folder: Path) -> Started:
        started = super().start(job, bootstrap, topic, folder)
        if not job.cost_ms or job.rate:
            return started._replace(loads=None)
        account = folder / ACCOUNT
        account.mkdir()
        plain = "--conf spark.eventLog.rolling.enabled=false --conf spark.eventLog.compress=false"
        log = f"--conf spark.eventLog.enabled=true --conf spark.eventLog.dir={account.as_uri()} {plain}"
        variables = {**started.environment, "PYSPARK_SUBMIT_ARGS": f"{log} pyspark-shell"}
        return started._replace(environment=variables)


class Quix(PythonEngine):
    """Quix Streams: a Python process a worker. It groups once, so there is no program for ``hot-items``."""

    engine, count = "quix", "value"
    programs: ClassVar = {
        "count sessions work": "program.py",
        "distinct": "distinct.py",
        "q16": "channels.py",
        "q18": "last_bids.py",
    }

    def values(self, job: Job, folder: Path) -> dict[str, object]:
        return super().values(job, folder) | {"LATE_MS": job.early_late_ms}

    def between(self, job: Job, topic: str, output: str) -> str:
        return f"repartition__{output}--{topic}--{job.field}"

    def closes(self, job: Job, topic: str, output: str) -> str:
        # A window is written once, when a later message of its partition has come. A stream goes on; a topic ends.
        return "" if job.distinct or job.query else self.between(job, topic, output)


class Bytewax(PythonEngine):
    """Bytewax: a Python process a worker, of one cluster."""

    engine, account = "bytewax", staticmethod(of_processes)
    programs: ClassVar = {
        "count sessions work": "program.py",
        "distinct": "distinct.py",
        "q5 q18": "nexmark.py",
        "q16": "channels.py",
    }


class Pathway(PythonEngine):
    """Pathway: a process a worker."""

    engine, nested = "pathway", False
    programs: ClassVar = {"count sessions": "program.py", "distinct": "distinct.py", "q16": "channels.py"}

    def start(self, job: Job, bootstrap: str, topic: str, folder: Path) -> Started:
        started = super().start(job, bootstrap, topic, folder)
        python = python_of("pathway")
        # As a script it would start the Python of the path where it was installed.
        spawn = [python, python.with_name("pathway"), "spawn", "--processes", job.workers, "--first-port", free_port()]
        return started._replace(command=[*map(str, spawn), *started.command])

    def results(self, key: bytes | None, value: bytes) -> Iterator[tuple[Place, int]]:
        record = orjson.loads(value)
        yield (record["start"], record["key"]), record["diff"] * record["n"]

    def reading(self, job: Job) -> Callable[[bytes | None, bytes], Iterator[tuple[Place, int]]]:
        if not job.query:
            return super().reading(job)
        rows: defaultdict[bytes | None, Counter[bytes]] = defaultdict(Counter)

        def standing(key: bytes | None, value: bytes) -> Iterator[tuple[Place, int]]:
            """The statistics of the row that stands when what is taken back is gone. That comes in any order."""
            row = orjson.loads(value)
            _, diff = row.pop("time"), row.pop("diff")
            content = orjson.dumps(row)
            rows[key][content] += diff
            if not rows[key][content]:
                del rows[key][content]
            if list(rows[key].values()) == [1]:
                yield from self.statistics(key, *rows[key])

        return standing


class KafkaStreams(JavaEngine):
    """Kafka Streams: a thread a worker, in one JVM."""

    engine, archive, shared = "kafka_streams", "kafka-streams-", ("Bid", "Matcher")
    programs: ClassVar = {
        "count sessions work": "Counts",
        "distinct": "Distinct",
        "shuffle": "Shuffle",
        "q5": "HotItems",
        "q16": "Channels",
        "q18": "LastBids",
        "join": "Join",
    }

    def values(self, job: Job, folder: Path) -> dict[str, object]:
        # It reads one topic of a join long before the other. There its search is by time, so old rows cost little.
        return super().values(job, folder) | {"LATE_MS": LATENESS_MS if job.joins else job.early_late_ms}

    def between(self, job: Job, topic: str, output: str) -> str:
        return f"{output}-keyed-repartition"

    def closes(self, job: Job, topic: str, output: str) -> str:
        # Windows' counts are written as they grow, those of sessions and hot items when a later message has come.
        return self.between(job, topic, output) if job.closes else ""


@dataclass(frozen=True)
class Storm(JavaEngine):
    """Storm in local mode: a thread a worker, in one JVM. No sessions, and other jobs than counts only with ``fields``.

    ``grouping``: ``fields`` or ``partial``.
    """

    engine, archive, shared = "storm", "storm-server-", ("Bid",)
    account, nested = staticmethod(of_storm), False
    programs: ClassVar = {"count work": "Counts", "distinct": "Distinct", "q16": "Channels"}
    grouping: str

    def does(self, job: Job) -> bool:
        return super().does(job) and (job.kind in ("count", "work") or self.grouping == "fields")


class Flink(PythonEngine):
    """PyFlink: Flink's SQL for counts and sessions, its DataStream API for work in Python and for distinct keys.

    For ShuffleBench it is a program in Java, with the archives that are in PyFlink.
    """

    engine, account = "flink", staticmethod(of_flink)
    programs: ClassVar = {
        "count sessions": "program.py",
        "work": "work.py",
        "distinct": "distinct.py",
        "shuffle": "Shuffle",
        "q5 q16 q18": "nexmark.py",
        "join": "join.py",
    }

    def version(self) -> str:
        found = super().version()
        self.command("Shuffle")
        return found

    @property
    def _home(self) -> Path:
        (home,) = python_of("flink").parents[1].glob("lib/python*/site-packages/pyflink")
        return home

    def command(self, program: str) -> Sequence[str | Path]:
        if program == "Shuffle":
            return [*compile_programs("flink", "Matcher", jars=f"{self._home}/lib/*"), program]
        return super().command(program)

    def values(self, job: Job, folder: Path) -> dict[str, object]:
        return super().values(job, folder) | {"JARS": ";".join(f"file://{jar}" for jar in jars_of("flink"))}

    def start(self, job: Job, bootstrap: str, topic: str, folder: Path) -> Started:
        started = super().start(job, bootstrap, topic, folder)
        if job.shuffles:  # the JVM must open to Flink what Flink's own settings have
            opened = re.findall(r"--add-[a-z]+=\S+", (self._home / "conf" / "config.yaml").read_text())
            return started._replace(environment={"JAVA_TOOL_OPTIONS": " ".join(opened)})
        path = f"{python_of('flink').parent}{os.pathsep}{os.environ['PATH']}"
        return started._replace(environment={"JAVA_TOOL_OPTIONS": "-Xmx2g", "PATH": path})


CONTESTANTS: dict[str, Contestant] = {
    each.name: each
    for each in (
        Ours("KEY"),
        Ours("BOUNDED_LOAD"),
        Ours("BOUNDED_LOAD, changes", "changes"),
        Ours("PLANNED"),
        Ours("MIXED"),
        Ours("balanced_join"),
        Spark("groupBy"),
        Spark("salted", 8),
        Flink("Flink"),
        KafkaStreams("Kafka Streams"),
        Storm("Storm, fields", "fields"),
        Storm("Storm, partial key", "partial"),
        Quix("Quix"),
        Bytewax("Bytewax"),
        Pathway("Pathway"),
    )
}
