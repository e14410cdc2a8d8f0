"""The contestants: how each is had, started, and read."""

import os
import re
import struct
import sys
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import orjson
import pyspark

from evidence.engines.environments import compiled, jars_of, python_of
from evidence.engines.jobs import LAST, LATENESS_MS, NO_AUCTION, STATISTICS, WINDOW_MS, Job, Place, ended, milliseconds
from evidence.engines.joins import code_pair
from evidence.engines.loads import ACCOUNT, of_distribution, of_flink, of_members, of_processes, of_spark, of_storm
from evidence.engines.matcher import write
from evidence.speed.measuring import settings
from unskew.apps.driver.python_processes import prepare_python
from unskew.apps.settings import Settings
from unskew.deploy.installation.jars import connector_jars
from unskew.deploy.installation.machine import find_java
from unskew.kafka.connection import Connection
from unskew.loopback import free_port

_HERE = Path(__file__).parent
_REMEMBERED = 86_400  # s: for how long ours remembers a key of the job ``distinct``, because a state must end


class Started(NamedTuple):
    """What starts a contestant.

    ``command``: The command. ``output``: The topic that it writes to. ``environment``: Variables beside those of this
    process. ``loads``: The messages that each worker of a job with work has got, as far as they are shown yet
    (``loads``). ``report``: A topic that it writes its loads to. Empty: none.
    """

    command: list[str]
    output: str
    environment: Mapping[str, str] = MappingProxyType({})
    loads: Callable[[], list[int]] | None = None
    report: str = ""


@dataclass(frozen=True)
class Contestant(ABC):
    """An engine, and how it does a job.

    ``name``: As the table has it.
    """

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

    def closes(self, job: Job, topic: str, output: str) -> str:
        """The topic that must get a last message of each partition once all others are read. Empty: none must."""
        return ""

    def reads(self, job: Job, topic: str) -> str:
        """The topic that it reads: it may be the one that has a last message, too."""
        return topic

    def does(self, job: Job) -> bool:
        """Whether it has a program for a job."""
        return not job.shuffles and not job.query

    @abstractmethod
    def start(self, job: Job, bootstrap: str, topic: str, folder: Path) -> Started:
        """What starts it. ``folder`` is empty, and its own."""

    def reading(self, job: Job) -> Callable[[bytes | None, bytes], Iterator[tuple[Place, int]]]:
        """What tells the results from a record of a job's output, its key and its value."""
        if job.query:
            of = {"q5": self.hot_item, "q16": self.statistics, "q18": self.last_bid, "join": self.pair}
            return of[job.query]
        return self.event if job.shuffles else self.first_seen if job.distinct else self.results

    @abstractmethod
    def results(self, key: bytes | None, value: bytes) -> Iterator[tuple[Place, int]]:
        """What a record of the output says: counts, each with its window and key."""

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
        start = hot["start"]
        start = milliseconds(start) if isinstance(start, str) else start
        yield (start, LAST if hot["auction"] == NO_AUCTION else str(hot["auction"])), hot["num"]

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


class Shuffling(Contestant):
    """One that has a program for ShuffleBench and for the join, too."""

    def does(self, job: Job) -> bool:
        return True


def _required(engine: str) -> str:
    """An engine on PyPI and its version, as its requirements name them. It is installed if it is missing."""
    python_of(engine)
    return (_HERE / engine / "requirements.txt").read_text().strip()


def _of_key(key: bytes | None, value: bytes, count: str) -> tuple[Place, int]:
    """The result of a record whose Kafka key is the key. ``count`` is its field with the count."""
    record = orjson.loads(value)
    return (record["start"], (key or b"").decode()), record[count]


def _segments(job: Job, folder: Path) -> Path:
    """A folder with the segments of ShuffleBench's rules."""
    write(job.rules, folder)
    return folder


def _query(program: str, output: str, of: list[object], interpreter: str) -> Started:
    """What starts a query of Spark's that imports from here."""
    path = [str(_HERE.parents[1]), os.environ.get("PYTHONPATH", "")]
    variables = {"JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": interpreter, "PYTHONPATH": os.pathsep.join(path)}
    jars = ",".join(map(str, connector_jars()))
    return Started([*map(str, [sys.executable, _HERE / program, *of, jars])], output, variables)


@dataclass(frozen=True)
class Ours(Shuffling):
    """`unskew topology` with a grouping, which is the contestant's name; or a query with `keyed_map`.

    ``emit``: When counts are published. With ``changes``, which the name says, too, only streams that go on are done.

    Such a query does the jobs after ShuffleBench, ``last-bids``, ``channels`` and ``join``. There is no program for
    ``hot-items``, because the topology's windows don't overlap. ``balanced_join`` does ``join`` alone.
    """

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

    def _settings(self, job: Job, bootstrap: str, topic: str, folder: Path) -> Settings:
        of = {"topic": topic, "sources": job.partitions, "workers": job.workers}
        return settings(Connection(bootstrap), self._grouping, folder, **of)

    @property
    def _grouping(self) -> str:
        return self.name.partition(",")[0]

    def start(self, job: Job, bootstrap: str, topic: str, folder: Path) -> Started:
        if job.shuffles:
            output = f"{topic}-{self.slug}-{folder.name}"
            of = [bootstrap, topic, output, job.workers, _segments(job, folder), self.name, job.partitions]
            return _query("ours/shuffle.py", output, of, prepare_python())
        if job.query:
            output = f"{topic}-{self.slug}-{folder.name}"
            of = [bootstrap, *job.topics(topic), output, job.workers, folder / "checkpoint", self.name]
            of.append(job.late_ms if job.joins else job.partitions)
            program = {"q16": "channels", "q18": "last_bids", "join": "join"}[job.query]
            return _query(f"ours/{program}.py", output, of, prepare_python())
        run = self._settings(job, bootstrap, topic, folder)
        # A field that isn't the dataset's own key is named, and so is a key that a work reads.
        named = job.stateful or len(job.path) > 1
        kind = "COLUMN" if named else job.source_type
        speed = 1 / job.cost_ms if job.cost_ms and job.cost == "sleep" else 0
        positional = [kind, self._grouping, topic, job.partitions, job.workers, f"x{speed:g}"]
        more: list[object] = []
        options = {
            "--time": "event",
            "--window": WINDOW_MS / 1000,
            "--lateness": job.late_ms / 1000,
            "--emit": self.emit,
            "--checkpoint": folder / "checkpoint",
            "--bootstrap-servers": bootstrap,
        }
        if job.stateful:
            del options["--window"]
            sessions = {"--work": "unskew.operators:Sessions", "--work-option": f"gap={job.gap_ms / 1000}"}
            distinct = {"--work": "unskew.operators:Distinct", "--work-option": "id=key"}
            options |= distinct if job.distinct else sessions
            more += ["--work-option", f"ttl={_REMEMBERED}"] if job.distinct else []
        if named:
            options["-s"] = f"key={job.field}"
        variables = {}
        if job.cost == "cpu":
            # As many a batch as all workers would have in a second, as it takes them by itself where they sleep.
            options |= {"--work": "computing:count", "--max-tuples": round(1000 * job.workers / job.cost_ms)}
            path = [str(_HERE / "ours"), os.environ.get("PYTHONPATH", "")]
            variables = {"PYTHONPATH": os.pathsep.join(path), "COST_MS": str(job.cost_ms)}
        # Two threads, as the others have, where tuples cost nothing.
        master = [] if job.cost_ms else ["--master", "local[2]"]
        unskew = Path(sys.executable).with_name("unskew")
        # A stream that goes on has no end to drain it to, and its batches follow each other without a wait.
        ends = ["--trigger", 0] if job.rate else ["--until", "drained"]
        command = [unskew, "topology", "LOCAL", *positional, *ends, *master]
        command += [*more, *(part for pair in options.items() for part in pair)]
        output = f"{run.name}-{'results' if job.stateful else 'aggregator'}"
        report = f"{run.name}-distribution"
        return Started(
            [*map(str, command)], output, variables, partial(of_distribution, run.connection, report), report
        )

    def reads(self, job: Job, topic: str) -> str:
        return ended(topic) if job.closes else topic

    def results(self, key: bytes | None, value: bytes) -> Iterator[tuple[Place, int]]:
        record = orjson.loads(value)
        fields = record["fields"]
        if "key" in record["tags"]:  # else it says that a window is closed
            yield (fields.get("start", record["timestamp"] - WINDOW_MS), record["tags"]["key"]), fields["count"]

    def first_seen(self, key: bytes | None, value: bytes) -> Iterator[tuple[Place, int]]:
        yield (0, orjson.loads(value)["tags"]["key"]), 1  # its Kafka key has more in it


@dataclass(frozen=True)
class Spark(Shuffling):
    """Spark's own ``groupBy``, and its own join.

    ``salts``: Above 0: it does ``join`` alone. A left row gets a random one of so many salts, and a right row is there
    with each of them.
    """

    salts: int = 0

    def does(self, job: Job) -> bool:
        return job.joins or not self.salts

    def version(self) -> str:
        return f"pyspark {pyspark.__version__}"

    def start(self, job: Job, bootstrap: str, topic: str, folder: Path) -> Started:
        output = f"{topic}-spark-{folder.name}"
        checkpoint, account = folder / "checkpoint", folder / ACCOUNT
        program = "program.py"
        of = [bootstrap, topic, output, job.field, job.gap_ms, *job.costs, job.workers, checkpoint, job.late_ms]
        if job.distinct:
            program, of = "distinct.py", [bootstrap, topic, output, job.field, job.workers, checkpoint]
        elif job.shuffles:
            program, of = "shuffle.py", [bootstrap, topic, output, job.workers, _segments(job, folder)]
        elif job.joins:
            program = "join.py"
            of = [bootstrap, *job.topics(topic), output, job.workers, checkpoint, job.late_ms, self.salts]
        elif job.query == "q16":
            program, of = "channels.py", [bootstrap, topic, output, job.workers, checkpoint]
        elif job.query:
            program = "nexmark.py"
            of = [job.query, bootstrap, topic, output, job.workers, checkpoint, job.late_ms]
        started = _query(f"spark/{program}", output, of, sys.executable)
        if not job.cost_ms or job.rate:
            return started
        account.mkdir()
        plain = "--conf spark.eventLog.rolling.enabled=false --conf spark.eventLog.compress=false"
        log = f"--conf spark.eventLog.enabled=true --conf spark.eventLog.dir={account.as_uri()} {plain}"
        variables = {**started.environment, "PYSPARK_SUBMIT_ARGS": f"{log} pyspark-shell"}
        return started._replace(environment=variables, loads=partial(of_spark, account))

    def reads(self, job: Job, topic: str) -> str:
        return ended(topic) if job.closes else topic

    def results(self, key: bytes | None, value: bytes) -> Iterator[tuple[Place, int]]:
        record = orjson.loads(value)
        yield (record["start"], record["key"]), record["count"]


class Quix(Contestant):
    """Quix Streams: a Python process a worker. It groups once, so there is no program for ``hot-items``."""

    def does(self, job: Job) -> bool:
        return super().does(job) or job.query in ("q16", "q18")

    def version(self) -> str:
        return _required("quix")

    def start(self, job: Job, bootstrap: str, topic: str, folder: Path) -> Started:
        output = f"{topic}-quix-{folder.name}"
        of = [bootstrap, topic, output, job.field, job.gap_ms, *job.costs, job.workers, folder / "state"]
        program = [python_of("quix"), _HERE / "quix" / "program.py", *of, job.early_late_ms, job.aim]
        if job.distinct:
            of = [bootstrap, topic, output, job.field, job.workers, folder / "state"]
            program = [python_of("quix"), _HERE / "quix" / "distinct.py", *of]
        if job.query:
            name = "last_bids.py" if job.query == "q18" else "channels.py"
            of = [bootstrap, topic, output, job.workers, folder / "state"]
            program = [python_of("quix"), _HERE / "quix" / name, *of]
        seen = partial(of_members, Connection(bootstrap), output, self.closes(job, topic, output))
        return Started([*map(str, program)], output, loads=seen)

    def closes(self, job: Job, topic: str, output: str) -> str:
        # A window is written once, when a later message of its partition has come. A stream goes on; a topic ends.
        return "" if job.distinct or job.query else f"repartition__{output}--{topic}--{job.field}"

    def results(self, key: bytes | None, value: bytes) -> Iterator[tuple[Place, int]]:
        yield _of_key(key, value, "value")


class Bytewax(Contestant):
    """Bytewax: a Python process a worker, of one cluster."""

    def does(self, job: Job) -> bool:
        return super().does(job) or (bool(job.query) and not job.joins)

    def version(self) -> str:
        return _required("bytewax").replace("[kafka]", "")

    def start(self, job: Job, bootstrap: str, topic: str, folder: Path) -> Started:
        output = f"{topic}-bytewax-{folder.name}"
        of = [bootstrap, topic, output, job.field, job.gap_ms, *job.costs, job.workers, job.late_ms, job.aim]
        program = [python_of("bytewax"), _HERE / "bytewax" / "program.py", *of]
        if job.distinct:
            of = [bootstrap, topic, output, job.field, job.workers]
            program = [python_of("bytewax"), _HERE / "bytewax" / "distinct.py", *of]
        if job.query:
            of = [job.query, bootstrap, topic, output, job.late_ms, job.workers]
            program = [python_of("bytewax"), _HERE / "bytewax" / "nexmark.py", *of]
        if job.query == "q16":
            of = [bootstrap, topic, output, job.workers]
            program = [python_of("bytewax"), _HERE / "bytewax" / "channels.py", *of]
        return Started([*map(str, program)], output, loads=partial(of_processes, folder / ACCOUNT))

    def results(self, key: bytes | None, value: bytes) -> Iterator[tuple[Place, int]]:
        yield _of_key(key, value, "n")


class Pathway(Contestant):
    """Pathway: a process a worker."""

    def version(self) -> str:
        return _required("pathway")

    def does(self, job: Job) -> bool:
        return job.query == "q16" or (super().does(job) and not job.cost_ms and len(job.path) == 1)

    def start(self, job: Job, bootstrap: str, topic: str, folder: Path) -> Started:
        output = f"{topic}-pathway-{folder.name}"
        python = python_of("pathway")
        # As a script it would start the Python of the path where it was installed.
        spawn = [python, python.with_name("pathway"), "spawn", "--processes", job.workers, "--first-port", free_port()]
        program = [_HERE / "pathway" / "program.py", bootstrap, topic, output, job.field, job.gap_ms]
        if job.distinct:
            program = [_HERE / "pathway" / "distinct.py", bootstrap, topic, output, job.field]
        if job.query:
            program = [_HERE / "pathway" / "channels.py", bootstrap, topic, output]
        return Started([*map(str, [*spawn, python, *program])], output)

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


def _between(output: str) -> str:
    """The topic of Kafka Streams between reading and counting."""
    return f"{output}-keyed-repartition"


class KafkaStreams(Shuffling):
    """Kafka Streams: a thread a worker, in one JVM."""

    def version(self) -> str:
        for program in ("Counts", "Distinct", "LastBids", "HotItems", "Join"):
            self._program(program)
        self._program("Channels", "Bid")
        self._program("Shuffle", "Matcher")
        (jar,) = (jar for jar in jars_of("kafka_streams") if jar.name.startswith("kafka-streams-"))
        return jar.stem

    def _program(self, name: str, *shared: str) -> list[str]:
        return compiled("kafka_streams", name, "kafka_streams/Streams", *shared)

    def start(self, job: Job, bootstrap: str, topic: str, folder: Path) -> Started:
        output = f"{topic}-kafka-streams-{folder.name}"
        if job.distinct:
            of = [bootstrap, topic, output, job.field, job.workers, folder / "state"]
            return Started([*self._program("Distinct"), *map(str, of)], output)
        if job.shuffles:
            of = [bootstrap, topic, output, job.workers, _segments(job, folder), folder / "state"]
            return Started([*self._program("Shuffle", "Matcher"), *map(str, of)], output)
        if job.query == "q16":
            of = [bootstrap, topic, output, job.workers, folder / "state"]
            return Started([*self._program("Channels", "Bid"), *map(str, of)], output)
        if job.query:
            # It reads one topic of a join long before the other. There its search is by time, so old rows cost little.
            late_ms = LATENESS_MS if job.joins else job.late_ms
            of = [bootstrap, *job.topics(topic), output, job.workers, folder / "state", late_ms]
            program = {"q5": "HotItems", "q18": "LastBids", "join": "Join"}[job.query]
            return Started([*self._program(program), *map(str, of)], output)
        of = [bootstrap, topic, output, job.field, job.gap_ms, *job.costs, job.workers, folder / "state"]
        command = [*self._program("Counts"), *map(str, of), str(job.early_late_ms), job.aim]
        return Started(command, output, loads=partial(of_members, Connection(bootstrap), output, _between(output)))

    def closes(self, job: Job, topic: str, output: str) -> str:
        # Windows' counts are written as they grow, those of sessions and hot items when a later message has come.
        return _between(output) if job.closes else ""

    def results(self, key: bytes | None, value: bytes) -> Iterator[tuple[Place, int]]:
        yield _of_key(key, value, "count")


@dataclass(frozen=True)
class Storm(Contestant):
    """Storm in local mode: a thread a worker, in one JVM. No sessions, and what is distinct only with ``fields``.

    ``grouping``: ``fields`` or ``partial``.
    """

    grouping: str

    def version(self) -> str:
        self._program("Counts")
        self._program("Distinct")
        self._program("Channels", "Bid")
        (jar,) = (jar for jar in jars_of("storm") if jar.name.startswith("storm-server-"))
        return jar.stem.replace("-server", "")

    def _program(self, name: str, *shared: str) -> list[str]:
        return compiled("storm", name, "storm/Topologies", *shared)

    def does(self, job: Job) -> bool:
        if job.query:
            return job.query == "q16" and self.grouping == "fields"
        return (
            super().does(job)
            and not job.gap_ms
            and len(job.path) == 1
            and (not job.distinct or self.grouping == "fields")
        )

    def start(self, job: Job, bootstrap: str, topic: str, folder: Path) -> Started:
        output = f"{topic}-{self.slug}-{folder.name}"
        spouts = min(job.partitions, job.workers)
        if job.distinct:
            of = [bootstrap, topic, output, job.field, spouts, job.workers]
            return Started([*self._program("Distinct"), *map(str, of)], output)
        if job.query:
            of = [bootstrap, topic, output, spouts, job.workers]
            return Started([*self._program("Channels", "Bid"), *map(str, of)], output)
        of = [self.grouping, bootstrap, topic, output, job.field, *job.costs, spouts, job.workers, job.aim]
        return Started([*self._program("Counts"), *map(str, of)], output, loads=partial(of_storm, folder / ACCOUNT))

    def results(self, key: bytes | None, value: bytes) -> Iterator[tuple[Place, int]]:
        yield _of_key(key, value, "count")


class Flink(Shuffling):
    """PyFlink: Flink's SQL for counts and sessions, its DataStream API for work in Python and for distinct keys.

    For ShuffleBench it is a program in Java, with the archives that are in PyFlink.
    """

    def version(self) -> str:
        found = _required("flink")
        self._shuffle()
        return found

    def _shuffle(self) -> tuple[list[str], str]:
        """The command for ShuffleBench, and what the JVM must open to Flink, as Flink's own settings have it."""
        (home,) = python_of("flink").parents[1].glob("lib/python*/site-packages/pyflink")
        opened = re.findall(r"--add-[a-z]+=\S+", (home / "conf" / "config.yaml").read_text())
        return compiled("flink", "Shuffle", "Matcher", jars=f"{home}/lib/*"), " ".join(opened)

    def start(self, job: Job, bootstrap: str, topic: str, folder: Path) -> Started:
        output = f"{topic}-flink-{folder.name}"
        if job.shuffles:
            command, opened = self._shuffle()
            of = [bootstrap, topic, output, job.workers, _segments(job, folder), folder / "checkpoints"]
            return Started([*command, *map(str, of)], output, {"JAVA_TOOL_OPTIONS": opened})
        python = python_of("flink")
        jars = ";".join(f"file://{jar}" for jar in jars_of("flink"))
        what = job.costs if job.cost_ms else (job.gap_ms,)
        of = [bootstrap, topic, output, job.field, *what, job.workers]
        how = [job.late_ms, job.aim]
        variables = {"JAVA_TOOL_OPTIONS": "-Xmx2g", "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
        program = _HERE / "flink" / ("work.py" if job.cost_ms else "program.py")
        if job.distinct:
            program, of = _HERE / "flink" / "distinct.py", [bootstrap, topic, output, job.field, job.workers]
            how = [folder / "checkpoints"]
        if job.query:
            program, of = _HERE / "flink" / "nexmark.py", [job.query, bootstrap, topic, output, job.workers]
            how = [folder / "checkpoints"]
        if job.joins:
            program, of = _HERE / "flink" / "join.py", [bootstrap, *job.topics(topic), output, job.workers, job.late_ms]
        command = [python, program, *of, *how, jars]
        return Started([*map(str, command)], output, variables, partial(of_flink, folder / ACCOUNT))

    def results(self, key: bytes | None, value: bytes) -> Iterator[tuple[Place, int]]:
        record = orjson.loads(value)
        start = record["start"]
        if isinstance(start, str):
            start = milliseconds(start)
        yield (start, record["key"]), record["n"]


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
