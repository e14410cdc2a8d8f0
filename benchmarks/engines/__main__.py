"""Other engines beside ours: the same topic, the same result, on one machine and one broker.

    python -m benchmarks.engines [--jobs NAME ...] [--engines NAME ...] [--records N] [--repeats N] [--list]

Each contestant runs as a process of its own, in an environment of its own that is made when it is first asked for. They
take turns. A run ends as soon as all counts are in the output topic, and right; a wrong result has no rate.

The columns: *s*, from the start of the process until the broker appended the last count (median). *Messages/s*: all
messages over that time, with the start. *CPU*: seconds a million messages, of the process and all that it started.
*Memory*: the greatest sum of their proportional set sizes, sampled each second.
"""

import argparse
import os
import signal
import statistics
import subprocess
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psutil
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from benchmarks.engines.contestants import CONTESTANTS, Contestant
from benchmarks.engines.environments import Unavailable
from benchmarks.engines.jobs import JOBS, Found, Job, Truth, published, send_last
from benchmarks.measuring import in_turns
from benchmarks.processes import end
from unskew.deploy.kafka.connection import Connection
from unskew.deploy.kafka.reader import TopicReader
from unskew.deploy.kafka.topics import end_offsets, ensure_topic, topics
from unskew.deploy.servers.broker import Broker

_SILENCE = 120.0  # s without a new count, after which a run is given up
_AFTER_ITS_END = 5.0  # s
_LOOK_EVERY, _WEIGH_EVERY = 0.2, 1.0  # s


class Measured(NamedTuple):
    """A run of a contestant. ``wrong`` says what is wrong; then the rest means nothing."""

    seconds: float = 0.0
    cpu: float = 0.0
    memory: float = 0.0
    wrong: str = ""

    def __str__(self) -> str:
        return self.wrong or f"{self.seconds:.1f} s, {self.cpu:.1f} s of CPU, {self.memory:,.0f} MiB"


class Usage:
    """What a process and all that it started have taken so far, those that have ended, too."""

    def __init__(self, root: int) -> None:
        self._root = psutil.Process(root)
        self._cpu: dict[tuple[int, float], float] = {}
        self._weighed = 0.0
        self.memory = 0.0

    @property
    def cpu(self) -> float:
        """CPU seconds."""
        return sum(self._cpu.values())

    def look(self) -> None:
        """Look at all processes now."""
        weigh = time.monotonic() - self._weighed > _WEIGH_EVERY
        size = 0.0
        try:
            family = [self._root, *self._root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        for process in family:
            try:
                times = process.cpu_times()
                self._cpu[process.pid, process.create_time()] = times.user + times.system
                size += process.memory_full_info().pss / 2**20 if weigh else 0.0
            except psutil.Error:
                continue
        if weigh:
            self._weighed = time.monotonic()
            self.memory = max(self.memory, size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", nargs="+", choices=list(JOBS), default=list(JOBS))
    parser.add_argument("--engines", nargs="+", choices=list(CONTESTANTS), default=list(CONTESTANTS))
    parser.add_argument("--records", type=int, help="messages of each job")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    console = Console(width=140)
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "kafka") as broker:
        connection = Connection(broker.bootstrap_servers)
        for name in given.jobs:
            job = JOBS[name] if given.records is None else replace(JOBS[name], records=given.records)
            console.print(_compared(connection, job, [CONTESTANTS[each] for each in given.engines], given.repeats))


def _compared(connection: Connection, job: Job, engines: list[Contestant], repeats: int) -> Table:
    """The table of a job."""
    missing: dict[str, str] = {}
    versions: dict[str, str] = {}
    for engine in engines:
        try:
            versions[engine.name] = engine.version()
        except Unavailable as why:
            missing[engine.name] = str(why)
    truth = published(connection, f"engines-{job.name}", job)
    runs = {each.name: partial(_run, connection, job, each, truth) for each in engines if each.name in versions}
    found = in_turns(runs, repeats, str)
    heads = "engine", "s", "messages/s", "CPU s a million", "memory, MiB", "version"
    table = Table(*heads, title=f"{job.what}: {truth.total:,} messages, W = {job.workers}", box=MARKDOWN)
    for engine in engines:
        if engine.name in missing:
            table.add_row(engine.name, "", "", "", "", f"can't be had: {missing[engine.name]}")
            continue
        of = found[engine.name]
        if wrong := next((run.wrong for run in of if run.wrong), ""):
            table.add_row(engine.name, "", "", "", "", f"{versions[engine.name]}: {wrong}")
            continue
        seconds, cpu, memory = (statistics.median(values) for values in zip(*(run[:3] for run in of), strict=True))
        cells = f"{seconds:.1f}", f"{truth.total / seconds:,.0f}", f"{1e6 * cpu / truth.total:.2f}", f"{memory:,.0f}"
        table.add_row(engine.name, *cells, versions[engine.name])
    return table


def _read(connection: Connection, topic: str, group: str) -> bool:
    """Whether a consumer group has committed the ends of all partitions."""
    ends = end_offsets(connection, topic)
    consumer = Consumer(connection.client(**{"group.id": group}))
    try:
        committed = consumer.committed([TopicPartition(topic, partition) for partition in ends], timeout=5.0)
    finally:
        consumer.close()
    return all(each.offset >= ends[each.partition] for each in committed)


def _made(connection: Connection, topic: str, partitions: int) -> None:
    """Make a topic whose records have the broker's time, in place of an earlier run's. (Ours has one name for all.)"""
    if topic in topics(connection):
        AdminClient(connection.client()).delete_topics([topic])[topic].result()
        while topic in topics(connection):
            time.sleep(0.1)
    ensure_topic(connection, topic, partitions, {"message.timestamp.type": "LogAppendTime"})


def _run(connection: Connection, job: Job, engine: Contestant, truth: Truth, repeat: int) -> Measured:
    """Run a contestant until all counts are there."""
    with tempfile.TemporaryDirectory(prefix=f"{repeat}-") as name, tempfile.TemporaryFile() as log:
        folder = Path(name)
        started = engine.start(job, connection.bootstrap_servers, f"engines-{job.name}", folder)
        _made(connection, started.output, job.partitions)
        began = time.time()
        variables = {**os.environ, **started.environment}
        process = subprocess.Popen(started.command, cwd=folder, stdout=log, stderr=log, env=variables)
        usage, found = Usage(process.pid), Found()
        closes = engine.closes(f"engines-{job.name}", started.output)
        try:
            over = time.monotonic() + _SILENCE
            with TopicReader(connection, started.output) as reader:
                while found.total < truth.total and time.monotonic() < over:
                    usage.look()
                    for message in reader.new(_LOOK_EVERY):
                        found.add(engine.results(message.key(), message.value() or b""), message.timestamp()[1])
                        over = time.monotonic() + _SILENCE
                    if process.poll() is not None:
                        over = min(over, time.monotonic() + _AFTER_ITS_END)
                    if closes and _read(connection, f"engines-{job.name}", started.output):
                        send_last(connection, closes)
                        closes = ""
            usage.look()
        finally:
            process.send_signal(signal.SIGTERM)
            end(process.pid)
            process.wait()
        wrong = found.wrong(truth)
        if wrong:
            log.seek(0)
            print(log.read().decode(errors="replace")[-20000:])
        return Measured(found.last_ms / 1000 - began, usage.cpu, usage.memory, wrong)


if __name__ == "__main__":
    main()
