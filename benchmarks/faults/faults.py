"""How each kind of fault is inflicted, and undone."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions

from benchmarks.faults.plan import Fault
from benchmarks.faults.processes import of_kind
from benchmarks.faults.stage import TOPIC, Stage
from unskew.deploy.client.topics import partitions_of
from unskew.deploy.servers.server import Server

#: Malformed messages in a burst.
BURST = 150_000
_MOST_PARTITIONS = 12
_PATIENCE = 90.0  # s until there is a process of the kind
_LEAST_SHIFT, _MOST_SHIFT = 2.0, 10_800.0  # s

T = TypeVar("T")
Undo = Callable[[], None]


def inflict(stage: Stage, fault: Fault) -> Undo:
    """Inflict it; what undoes it.

    Raises
    ------
    TimeoutError
        There is nothing of the kind that it is for.

    """
    return FAULTS[fault.kind](stage, fault)


def _nothing() -> None:
    """What is dead stays so, until a supervisor starts another one."""


def _found(stage: Stage, find: Callable[[], Sequence[T]], fault: Fault) -> T:
    """One of those there are, when there are some."""
    until = time.monotonic() + _PATIENCE
    while not (found := find()):
        if time.monotonic() > until:
            raise TimeoutError(f"nothing to inflict {fault.kind} on")
        stage.pass_time(0.2)
    return found[int(fault.draw * len(found))]


def _driver(stage: Stage) -> list[int]:
    return [stage.driver.pid] if stage.driver.pid is not None else []


def _jvm(stage: Stage) -> list[int]:
    """The launcher's own JVM has its command line for a moment."""
    return [process.pid for process in of_kind("JVM") if process.parent == stage.driver.pid]


def _python_workers(_: Stage) -> list[int]:
    """Those that do the tasks, not the daemons that they are forked from."""
    family = of_kind("Python workers")
    daemons = {process.pid for process in family}
    return [process.pid for process in family if process.parent in daemons]


def _executors(stage: Stage) -> list[int]:
    return stage.cluster.executors()


def _producer(stage: Stage) -> list[int]:
    return [stage.producer.pid] if stage.producer is not None else []


def _kill(find: Callable[[Stage], list[int]], stage: Stage, fault: Fault) -> Undo:
    with contextlib.suppress(ProcessLookupError):
        os.kill(_found(stage, partial(find, stage), fault), signal.SIGKILL)
    return _nothing


def _stop(find: Callable[[Stage], list[int]], stage: Stage, fault: Fault) -> Undo:
    pid = _found(stage, partial(find, stage), fault)

    def resume() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    return resume


def _power(stage: Stage, fault: Fault) -> Undo:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(_found(stage, partial(_driver, stage), fault), signal.SIGKILL)
    return _nothing


def _asked(stage: Stage, fault: Fault) -> Undo:
    _found(stage, partial(_driver, stage), fault)
    stage.driver.ask_to_end()
    return _nothing


def _machine(stage: Stage, fault: Fault) -> Undo:
    stage.cluster.kill_worker(int(2 * fault.draw))
    return stage.cluster.add_worker


def _killed_server(server: Server) -> Undo:
    server.kill()
    return server.start


def _stopped_server(server: Server) -> Undo:
    server.pause()
    return server.resume


def _influxdb(stage: Stage) -> Server:
    assert stage.influxdb is not None
    return stage.influxdb


def _disk(stage: Stage, _: Fault) -> Undo:
    """Nothing more can be written to the checkpoint's disk, not a byte."""
    ballast = stage.disk / "ballast"
    with ballast.open("wb") as file:
        for size in (1 << 20, 1 << 12):
            with contextlib.suppress(OSError):
                while True:
                    os.posix_fallocate(file.fileno(), file.tell(), size)
                    file.seek(size, os.SEEK_CUR)
    return ballast.unlink


def _clock(stage: Stage, fault: Fault) -> Undo:
    """Back or forward, by seconds to hours; then it is right again."""
    clock = stage.clock
    assert clock is not None
    sign, size = (-1, 2 * fault.draw) if fault.draw < 0.5 else (1, 2 * fault.draw - 1)
    clock.set_to(sign * _LEAST_SHIFT * (_MOST_SHIFT / _LEAST_SHIFT) ** size)
    return partial(clock.set_to, 0)


def _malformed(stage: Stage, _: Fault) -> Undo:
    stage.burst(BURST)
    return _nothing


def _partitions(stage: Stage, _: Fault) -> Undo:
    there = partitions_of(stage.connection, TOPIC) or 0
    if there < _MOST_PARTITIONS:
        admin = AdminClient(stage.connection.client())  # held until the answer is here
        with contextlib.suppress(KafkaException):
            admin.create_partitions([NewPartitions(TOPIC, there + 1)])[TOPIC].result()
    return _nothing


#: kind → how it is inflicted.
FAULTS: dict[str, Callable[[Stage, Fault], Undo]] = {
    "power": _power,
    "driver": partial(_kill, _driver),
    "jvm": partial(_kill, _jvm),
    "asked": _asked,
    "disk": _disk,
    "clock": _clock,
    "driver-stopped": partial(_stop, _driver),
    "jvm-stopped": partial(_stop, _jvm),
    "executor": partial(_kill, _executors),
    "executor-stopped": partial(_stop, _executors),
    "machine": _machine,
    "python": partial(_kill, _python_workers),
    "python-stopped": partial(_stop, _python_workers),
    "broker": lambda stage, _: _killed_server(stage.broker),
    "broker-stopped": lambda stage, _: _stopped_server(stage.broker),
    "influxdb": lambda stage, _: _killed_server(_influxdb(stage)),
    "influxdb-stopped": lambda stage, _: _stopped_server(_influxdb(stage)),
    "producer": partial(_kill, _producer),
    "producer-stopped": partial(_stop, _producer),
    "malformed": _malformed,
    "partitions": _partitions,
}
