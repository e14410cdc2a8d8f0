"""What is done to a run, and when: drawn from a seed, and nothing else."""

import random
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    Attributes
    ----------
    what : str
        In words.
    hold : (float, float)
        Bounds of how long it lasts, s.
    ends : bool
        Whether the driver comes to its end by it.
    times : int
        How often a round has it.

    """

    what: str
    hold: tuple[float, float] = (0.0, 0.0)
    ends: bool = False
    times: int = 1


#: name → kind. Killed is by SIGKILL, stopped by SIGSTOP.
KINDS: dict[str, Kind] = {
    "power": Kind("driver and JVM killed at once", ends=True),
    "driver": Kind("the driver's Python killed", ends=True),
    "jvm": Kind("the driver's JVM killed", ends=True),
    "asked": Kind("the driver told to end (SIGTERM)", ends=True),
    "disk": Kind("the checkpoint's disk full", (3, 15), ends=True),
    "clock": Kind("the driver's clock shifted while it runs", (8, 25), ends=True),
    "driver-stopped": Kind("the driver's Python stopped", (2, 20)),
    "jvm-stopped": Kind("the driver's JVM stopped", (2, 20)),
    "executor": Kind("an executor killed", times=2),
    "executor-stopped": Kind("an executor stopped", (2, 20)),
    "machine": Kind("a cluster's worker killed with its executors, another one comes", (1, 8)),
    "python": Kind("a Python worker killed", times=2),
    "python-stopped": Kind("a Python worker stopped", (2, 20)),
    "broker": Kind("the broker killed, and started again", (0.5, 8), times=2),
    "broker-stopped": Kind("the broker stopped", (2, 20)),
    "influxdb": Kind("InfluxDB killed, and started again", (1, 10)),
    "influxdb-stopped": Kind("InfluxDB stopped", (2, 20)),
    "producer": Kind("the producer killed, and started again"),
    "producer-stopped": Kind("the producer stopped", (2, 20)),
    "malformed": Kind("a burst of malformed messages", times=3),
    "partitions": Kind("a partition added to the topic"),
}

#: Of groupings that remember or plan, and how their result topics are called.
GROUPINGS = {
    "PARTIAL_KEY": ("pkg",),
    "DYNAMIC_KEY": ("dkg", "--warm-up=2", "--check-interval=1", "--promotion-period=1"),
    "BOUNDED_LOAD": ("bl",),
    # plans in nearly every batch
    "MIXED": ("mixed", "--grouping-option=theta_max=0", "--grouping-option=window=1"),
}
TIMES = ("batch", "event")
_GAP = (2.0, 12.0)  # s
_BESIDE = 0.2  # share of the faults that don't wait until the one before is recovered from


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes
    ----------
    kind : str
        Of ``KINDS``.
    gap : float
        Seconds before it, from the recovery from the one before it.
    hold : float
        Seconds that it lasts.
    draw : float
        In [0, 1): chooses which process, how much, …
    beside : bool
        It comes although the one before has not been recovered from.

    """

    kind: str
    gap: float
    hold: float
    draw: float
    beside: bool


def scene(seed: int) -> tuple[str, str]:
    """The grouping, and the time that windows are by: neighbouring seeds have all of them."""
    return list(GROUPINGS)[seed // 2 % len(GROUPINGS)], TIMES[seed % 2]


def plan(seed: int, without: tuple[str, ...] = ()) -> Iterator[Fault]:
    """The faults of a run, in rounds without end; each round has all kinds (but ``without``).

    First those that end the driver, then the others: so there are stretches over which it lives, and its memory can be
    followed.
    """
    rng = random.Random(seed)
    names = [name for name, kind in KINDS.items() if name not in without for _ in range(kind.times)]
    while True:
        rng.shuffle(names)
        for name in sorted(names, key=lambda name: not KINDS[name].ends):
            yield Fault(name, rng.uniform(*_GAP), rng.uniform(*KINDS[name].hold), rng.random(), rng.random() < _BESIDE)
