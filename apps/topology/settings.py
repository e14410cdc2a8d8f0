"""What a run of the topology is asked to do, checked before anything starts."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unskew.apps.topology import loss, work
from unskew.apps.topology.splitter import splitter
from unskew.apps.topology.work import Work
from unskew.deploy.client.connection import Connection
from unskew.errors import UsageError
from unskew.grouping import named, standalone

MODES = ("LOCAL", "CLUSTER")
TIMES = ("batch", "event")

# Tuples a batch at most, when they cost nothing: enough that a batch's fixed cost (a second on two cores) is small.
_FREE_BATCH = 5_000_000
# …and when they cost something: as many as W workers side by side do in this time.
_COSTLY_BATCH_SECONDS = 1.0


@dataclass(frozen=True)
class Settings:
    """One run. The first seven are the original's arguments, in its order; the rest were constants in its code.

    Attributes
    ----------
    mode : str
        LOCAL: Spark in this process; CLUSTER: on ``master``.
    source_type, grouping, source_name : str
        What the messages are, how tuples are routed, and the Kafka topic.
    sources, workers : int
        S, the topic's partitions (the original's spouts), and W.
    speed : str
        ``xN``: a worker does N tuples in ``process_ms``; ``x0``: tuples cost nothing.
    process_ms : float
        Simulated cost (ms).
    window, lateness, trigger : float
        Length of the windows; how much out of order tuples may come, with event time; pause between the starts of
        two batches (s).
    time : str
        ``batch`` or ``event``: what windows and groupings take as time.
    max_ahead : float
        With event time: how far ahead of the batch's time a message's own may be (s); beyond it, it is rejected.
    run_time : float
        Stop after so many seconds.
    until_drained : bool
        Stop when all that is published at the start is counted and its windows are out.
    max_tuples : int or None
        Most tuples a batch; None: 5 M if tuples cost nothing, else one second of work.
    options : mapping
        The grouping's own parameters.
    on_data_loss : str
        ``fail`` or ``skip`` (and count) messages that the topic no longer has when it is their turn.
    work_errors : str
        ``fail``, or ``reject`` the messages on which the work raises.
    consumer_group : str or None
        Kafka's group that is told how far the run is; None: ``unskew-`` and the run's name; empty: none is told.

    """

    mode: str
    source_type: str
    grouping: str
    source_name: str
    sources: int
    workers: int
    speed: str
    connection: Connection
    checkpoint: str
    process_ms: float = 1.0
    window: float = 15.0
    time: str = "batch"
    lateness: float = 10.0
    trigger: float = 1.0
    run_time: float = 10 * 86_400.0
    until_drained: bool = False
    starting_offsets: str = "earliest"
    max_tuples: int | None = None
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    work: Work | None = None
    work_columns: tuple[str, ...] = ()
    consumer_group: str | None = None
    on_data_loss: str = "fail"
    max_ahead: float = 3600.0
    work_errors: str = "fail"

    def __post_init__(self) -> None:
        """Check everything that can be checked without a broker or Spark.

        Raises
        ------
        UsageError
            Naming the bad value and the valid ones.

        """
        _one_of("mode", self.mode, MODES)
        _one_of("time", self.time, TIMES)
        _one_of("on_data_loss", self.on_data_loss, loss.POLICIES)
        _one_of("work_errors", self.work_errors, work.POLICIES)
        try:
            standalone(self.grouping, max(1, self.workers), seed=self.seed, **self.options)
        except ValueError as error:
            raise UsageError(str(error)) from None
        splitter(self.source_type)
        _topic(self.source_name)
        for name in ("sources", "workers"):
            _positive(name, getattr(self, name))
        for name in ("window", "run_time"):
            _positive(name, getattr(self, name))
        for name in ("lateness", "max_ahead", "trigger", "process_ms"):
            if getattr(self, name) < 0:
                raise UsageError(f"{name} is {getattr(self, name)}; valid: a number of at least 0")
        if self.max_tuples is not None:
            _positive("max_tuples", self.max_tuples)
        _ = self.tuples_per_process
        if self.mode == "CLUSTER" and not self.master:
            raise UsageError("mode CLUSTER needs --master (spark://host:port, yarn, k8s://…)")

    @property
    def tuples_per_process(self) -> int:
        """N of the speed xN."""
        found = re.fullmatch(r"[xX](\d+)", self.speed)
        if not found:
            raise UsageError(f"speed is {self.speed!r}; valid: x0 (tuples cost nothing), x1, x2, …")
        return int(found[1])

    @property
    def seconds_per_tuple(self) -> float:
        """What a tuple costs its worker."""
        n = self.tuples_per_process
        return self.process_ms / 1000 / n if n else 0.0

    @property
    def batch_limit(self) -> int:
        """Most tuples a batch."""
        if self.max_tuples is not None:
            return self.max_tuples
        if not self.seconds_per_tuple:
            return _FREE_BATCH
        return max(self.sources, round(self.workers * _COSTLY_BATCH_SECONDS / self.seconds_per_tuple))

    @property
    def window_ms(self) -> int:
        """Length of a window (ms)."""
        return round(self.window * 1000)

    @property
    def name(self) -> str:
        """The run's name, from which its topics are named."""
        return f"{self.source_name}-s{self.sources}-w{self.workers}-{named(self.grouping).short}"

    @property
    def group(self) -> str:
        """The consumer group that is told how far the run is; empty: none."""
        return f"unskew-{self.name}" if self.consumer_group is None else self.consumer_group

    @property
    def identity(self) -> dict[str, Any]:
        """What a checkpoint is bound to: with any of it changed, its state would mean something else."""
        return {
            "sourceType": self.source_type.upper(),
            "groupingType": self.grouping.upper(),
            "sourceName": self.source_name,
            "numSpouts": self.sources,
            "numWorkers": self.workers,
            "groupingOptions": dict(self.options),
            "seed": self.seed,
            "window": self.window,
            "time": self.time,
        }


def _one_of(name: str, value: str, valid: tuple[str, ...]) -> None:
    if value not in valid:
        raise UsageError(f"unknown {name} {value!r}; valid: {', '.join(valid)}")


def _positive(name: str, value: float) -> None:
    if value <= 0:
        raise UsageError(f"{name} is {value}; valid: a number above 0")


def _topic(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,200}", name):
        raise UsageError(f"sourceName {name!r} can't be a Kafka topic; valid: letters, digits, '.', '_', '-'")
