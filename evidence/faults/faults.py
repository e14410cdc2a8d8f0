"""The kinds of faults: what they are, when each comes, and how each is inflicted and undone.

The plan of a run is drawn from its seed, and from nothing else.
"""

import contextlib
import os
import random
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions  # pyright: ignore[reportPrivateImportUsage]  it is public

from evidence.faults.leaders import settle
from evidence.faults.proxy import Proxy
from evidence.faults.stage import TOPIC, Stage
from evidence.faults.waiting import await_condition
from evidence.speed.processes import of_kind
from unskew.deploy.servers.server import ServerProcess
from unskew.kafka.topics import count_partitions


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    ``what``: The fault in words. ``inflict``: Inflicts one, and returns the function that undoes it; it raises
    TimeoutError where there is no process to inflict it on. ``hold``: Bounds of how long such a fault lasts, s.
    ``times``: How many of them a round has.
    """

    what: str
    inflict: "Callable[[Stage, Fault], Undo]"
    hold: tuple[float, float] = (0.0, 0.0)
    times: int = 1


_AHEAD = 300  # messages from the future: more than a run looks at
_GAP = (2.0, 12.0)  # s
_BESIDE = 0.2  # share of the faults after which the next one comes before the run has recovered
_MOST_PARTITIONS = 12
_PATIENCE = 90.0  # s until there is a process of the kind
_START_PATIENCE = 240.0  # s until a driver that has been started has committed a batch
_LEAST_SHIFT, _MOST_SHIFT = 2.0, 10_800.0  # s

T = TypeVar("T")
Undo = Callable[[], None]


@dataclass(frozen=True)
class Fault:
    """One fault.

    ``kind``: Its name in ``KINDS``. ``gap``: Seconds from the recovery from the fault before this one until this one is
    inflicted. ``hold``: Seconds that it lasts. ``draw``: In [0, 1): chooses the process, the size, or what else the
    kind leaves open. ``beside``: Whether the next fault comes before the run has recovered from this one.
    """

    kind: str
    gap: float
    hold: float
    draw: float
    beside: bool


def plan(seed: int, without: tuple[str, ...] = ()) -> Iterator[Fault]:
    """The faults of a run, in rounds without end; each round has all kinds except those in ``without``."""
    rng = random.Random(seed)
    names = [name for name, kind in KINDS.items() if name not in without for _ in range(kind.times)]
    while True:
        rng.shuffle(names)
        for name in names:
            yield Fault(name, rng.uniform(*_GAP), rng.uniform(*KINDS[name].hold), rng.random(), rng.random() < _BESIDE)


def _nothing() -> None:
    """Undo nothing: what was killed is started again by its supervisor."""


def _found(stage: Stage, find: Callable[[], Sequence[T]], fault: Fault) -> T:
    """One of what ``find`` finds, chosen by the fault's draw, as soon as there is any."""
    found = await_condition(find, _PATIENCE, stage.pass_time)
    if not found:
        raise TimeoutError(f"nothing to inflict {fault.kind} on")
    return found[int(fault.draw * len(found))]


def _driver(stage: Stage) -> list[int]:
    return [stage.driver.pid] if stage.driver.pid is not None else []


def _jvm(stage: Stage) -> list[int]:
    """The driver's JVM; for a moment the launcher's own JVM has the same command line, but another parent."""
    return [process.pid for process in of_kind("JVM") if process.parent == stage.driver.pid]


def _python_workers(_: Stage) -> list[int]:
    """The processes that do tasks, without the daemons from which these are forked."""
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


def _cut(name: str, stage: Stage, _: Fault) -> Undo:
    """Cut a way of the stage's."""
    proxy: Proxy = getattr(stage, name)
    proxy.cut()
    return proxy.mend


def _future(stage: Stage, fault: Fault) -> Undo:
    """Kill the driver. When it starts again, the topic's newest messages are from the future, and no others come.

    It is killed before they are sent, so that the first new batch is the one that takes them.
    """
    resume = _stop(_producer, stage, fault)
    try:
        planned = stage.driver.planned()
        _power(stage, fault)
        with contextlib.suppress(subprocess.TimeoutExpired):
            stage.burst("future", _AHEAD).wait(_PATIENCE)
        _await_commit(stage, planned)
    except BaseException:
        resume()
        raise
    return resume


def _await_commit(stage: Stage, planned: int) -> None:
    """Wait until a batch after batch ``planned`` is committed, or until that takes too long."""
    await_condition(lambda: stage.driver.committed() > planned, _START_PATIENCE, stage.pass_time)


def _asked(stage: Stage, fault: Fault) -> Undo:
    _found(stage, partial(_driver, stage), fault)
    stage.driver.ask_to_end()
    return _nothing


def _machine(stage: Stage, fault: Fault) -> Undo:
    stage.cluster.kill_worker(int(2 * fault.draw))
    return stage.cluster.add_worker


def _kill_server(name: str, stage: Stage, _: Fault) -> Undo:
    server: ServerProcess = getattr(stage, name)
    server.kill()
    return server.start


def _stop_server(name: str, stage: Stage, _: Fault) -> Undo:
    server: ServerProcess = getattr(stage, name)
    server.pause()
    return server.resume


def _leaders(stage: Stage, _: Fault) -> Undo:
    """Kill the second broker, whose leaders move to the first. When it is in sync again, its leaders move back."""
    second = stage.second
    assert second is not None
    second.kill()

    def back() -> None:
        with ThreadPoolExecutor(1) as pool:  # meanwhile the run goes on, and its batches have to be noted
            started = pool.submit(second.start)
            while not started.done():
                stage.pass_time(0.2)
            started.result()
        admin = stage.connection.admin()
        settle(lambda: admin, stage.pass_time)

    return back


def _disk(stage: Stage, _: Fault) -> Undo:
    """Fill the checkpoint's disk to the last byte."""
    ballast = stage.disk / "ballast"
    with ballast.open("wb") as file:
        for size in (1 << 20, 1 << 12):
            with contextlib.suppress(OSError):
                while True:
                    os.posix_fallocate(file.fileno(), file.tell(), size)
                    file.seek(size, os.SEEK_CUR)
    return ballast.unlink


def _clock(stage: Stage, fault: Fault) -> Undo:
    """Shift the driver's clock back or forward, by seconds to hours."""
    clock = stage.clock
    assert clock is not None
    sign, size = (-1, 2 * fault.draw) if fault.draw < 0.5 else (1, 2 * fault.draw - 1)
    clock.shift(sign * _LEAST_SHIFT * (_MOST_SHIFT / _LEAST_SHIFT) ** size)
    return partial(clock.shift, 0)


def _burst(messages: int, stage: Stage, fault: Fault) -> Undo:
    """Send a burst of so many messages, or transactions."""
    stage.burst(fault.kind, messages)
    return _nothing


def _listing(stage: Stage, _: Fault) -> Undo:
    assert stage.listing is not None
    stage.listing.keep()
    return stage.listing.renew


def _second(stage: Stage, fault: Fault) -> Undo:
    """Start a second driver beside the first, which is paused until the second one has committed a batch."""
    _found(stage, partial(_driver, stage), fault)
    planned = stage.driver.planned()
    resume = stage.driver.supplant()
    _await_commit(stage, planned)
    return resume


def _supervised(stage: Stage, fault: Fault) -> Undo:
    """As ``_second``. When the first driver has ended it is started again, and has to wait until it is asked to end."""
    _second(stage, fault)()
    waits = False
    try:
        waits = await_condition(stage.driver.bring_back, _START_PATIENCE, stage.pass_time)
    finally:
        if not waits:
            stage.driver.end_returned()
    if not waits:
        raise TimeoutError("no first driver, started again, says that it waits")
    return stage.driver.end_returned


def _remade(stage: Stage, fault: Fault) -> Undo:
    """Delete the topic and make it again, under the run or while it is down, with fewer messages than before, or more.

    What the run has published of the old topic is judged before its results are deleted, too.
    """
    under, outgrown = divmod(int(4 * fault.draw), 2)
    stage.remake(under=bool(under), outgrown=bool(outgrown))
    return _nothing


def _partitions(stage: Stage, _: Fault) -> Undo:
    there = count_partitions(stage.connection, TOPIC) or 0
    if there < _MOST_PARTITIONS:
        admin = AdminClient(stage.connection.client())  # a name of its own: a client that is gone gives no answer
        with contextlib.suppress(KafkaException):
            admin.create_partitions([NewPartitions(TOPIC, there + 1)])[TOPIC].result()
    return _nothing


#: Name → kind. A process is killed by SIGKILL, and stopped by SIGSTOP.
KINDS: dict[str, Kind] = {
    "power": Kind("driver and JVM killed at once", _power),
    "driver": Kind("the driver's Python killed", partial(_kill, _driver)),
    "jvm": Kind("the driver's JVM killed", partial(_kill, _jvm)),
    "asked": Kind("the driver told to end (SIGTERM)", _asked),
    "disk": Kind("the checkpoint's disk full", _disk, (3, 15)),
    "clock": Kind("the driver's clock shifted while it runs", _clock, (8, 25)),
    "driver-stopped": Kind("the driver's Python stopped", partial(_stop, _driver), (2, 20)),
    "jvm-stopped": Kind("the driver's JVM stopped", partial(_stop, _jvm), (2, 20)),
    "executor": Kind("an executor killed", partial(_kill, _executors), times=2),
    "executor-stopped": Kind("an executor stopped", partial(_stop, _executors), (2, 20)),
    "machine": Kind("a cluster's worker killed with its executors, another one comes", _machine, (1, 8)),
    "python": Kind("a Python worker killed", partial(_kill, _python_workers), times=2),
    "python-stopped": Kind("a Python worker stopped", partial(_stop, _python_workers), (2, 20)),
    "broker": Kind("the broker killed, and started again", partial(_kill_server, "broker"), (0.5, 8), times=2),
    "broker-stopped": Kind("the broker stopped", partial(_stop_server, "broker"), (2, 20)),
    "leaders": Kind("the second broker killed, so that its leaders move, and later move back", _leaders, (3, 15)),
    "broker-unreachable": Kind("no bytes between the query and the broker", partial(_cut, "to_broker"), (5, 60)),
    "driver-unreachable": Kind("no bytes between the driver and executors", partial(_cut, "to_driver"), (5, 60)),
    "influxdb": Kind("InfluxDB killed, and started again", partial(_kill_server, "influxdb"), (1, 10)),
    "influxdb-stopped": Kind("InfluxDB stopped", partial(_stop_server, "influxdb"), (2, 20)),
    "producer": Kind("the producer killed, and started again", partial(_kill, _producer)),
    "producer-stopped": Kind("the producer stopped", partial(_stop, _producer), (2, 20)),
    "malformed": Kind("a burst of malformed messages", partial(_burst, 150_000), times=2),
    "large": Kind("a burst of large messages, 10 to 70 KB each", partial(_burst, 6_000)),
    "largest": Kind("messages up to the broker's limit, valid and malformed", partial(_burst, 24)),
    "transactions": Kind("transactions that commit, abort, or stay open", partial(_burst, 60), (2, 10), times=2),
    "future": Kind("driver and JVM killed, and the topic's newest messages ten days ahead", _future),
    "partitions": Kind("a partition added to the topic", _partitions),
    "listing": Kind("executors' lists of files show no new names", _listing, (5, 30), times=2),
    "second": Kind(
        "the driver and its JVM stopped, a second one started, the first goes on", _second, (0, 10), times=2
    ),
    "supervised": Kind(
        "a second driver beside a first, and that, when it has ended, started again", _supervised, (12, 30)
    ),
    "remade": Kind("the topic deleted and made again: refused, then begun anew", _remade),
}
