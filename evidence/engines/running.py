"""A contestant's process: its topic is made, it is started, what it takes is watched, and it is ended."""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO, NamedTuple

import psutil
from confluent_kafka.admin import AdminClient

from evidence.speed.processes import end
from unskew.kafka.connection import Connection
from unskew.kafka.topics import ensure_topic, list_topics

_MOST_MEMORY = 0.5  # of the machine's, above which a run is given up
LOOK_EVERY = 0.2  # s between two looks at a contestant
#: After the last right count: a record that makes one wrong again would be there by then.
SETTLE = 2.0  # s
_WEIGH_EVERY = 1.0  # s
_LOG = 20_000  # bytes of a failed run's output that are shown


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


class Usage:
    """What a process and all that it started have taken so far, those that have ended, too."""

    def __init__(self, root: int) -> None:
        self._root = psutil.Process(root)
        self._cpu: dict[psutil.Process, float] = {}
        self._weighed = 0.0
        self._most = _MOST_MEMORY * psutil.virtual_memory().total / 2**20
        self.memory = 0.0

    @property
    def cpu(self) -> float:
        """CPU seconds."""
        return sum(self._cpu.values())

    def by_process(self) -> dict[psutil.Process, float]:
        """The CPU seconds of each process, when it was last looked at."""
        return dict(self._cpu)

    @property
    def too_much(self) -> bool:
        """Whether it takes so much memory that the run is given up."""
        return self.memory > self._most

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
                self._cpu[process] = times.user + times.system
                size += process.memory_full_info().pss / 2**20 if weigh else 0.0
            except psutil.Error:
                continue
        if weigh:
            self._weighed = time.monotonic()
            self.memory = max(self.memory, size)


@dataclass(frozen=True)
class Running:
    """A contestant at work.

    ``process``: Its process. ``usage``: What it takes. ``log``: What it prints. The process writes where this file
    stands, so don't seek in it.
    """

    process: subprocess.Popen[bytes]
    usage: Usage
    log: IO[bytes]

    def complain(self, wrong: str) -> None:
        """Print what is wrong, and the end of what the process has printed."""
        size = os.fstat(self.log.fileno()).st_size
        print(wrong, os.pread(self.log.fileno(), _LOG, max(0, size - _LOG)).decode(errors="replace"), sep="\n")


@contextmanager
def running(started: Started, folder: Path) -> Iterator[Running]:
    """Start a contestant in a folder. When the block ends, it and all that it started are ended.

    Killed, they leave their temporary files (RocksDB's library alone is 65 MB, ZooKeeper's first log as much), so that
    those are in the folder, too.
    """
    with tempfile.TemporaryFile() as log:
        variables = {**os.environ, **started.environment}
        java = f"{variables.get('JAVA_TOOL_OPTIONS', '')} -Djava.io.tmpdir={folder}"
        variables |= {"TMPDIR": str(folder), "JAVA_TOOL_OPTIONS": java.strip()}
        process = subprocess.Popen(started.command, cwd=folder, stdout=log, stderr=log, env=variables)
        usage = Usage(process.pid)
        try:
            yield Running(process, usage, log)
        finally:
            end(process.pid)  # all at once: once a process has ended, its children are no longer found
            for left in usage.by_process():  # it has ended before, and left them
                with suppress(psutil.NoSuchProcess):
                    left.kill()
            process.wait()


def made(connection: Connection, topic: str, partitions: int) -> None:
    """Make a topic whose records have the broker's time, in place of an earlier run's. (Ours has one name for all.)"""
    if topic in list_topics(connection):
        admin = AdminClient(connection.client())  # it must outlive the answer
        admin.delete_topics([topic])[topic].result()
        while topic in list_topics(connection):
            time.sleep(0.1)
    ensure_topic(connection, topic, partitions, {"message.timestamp.type": "LogAppendTime"})
