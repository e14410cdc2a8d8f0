"""What a campaign's runs hold against the faults: topologies, and queries of a user's own with `balance`, `keyed_map`.

Each says how it is started, what its source topic's messages must become, and how that is judged.
"""

import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.faults.producer import FUTURE_MS
from oracle import rows, truth
from oracle.truth import Record, Verdict
from unskew.grouping.registry import STANDALONE

if TYPE_CHECKING:
    from benchmarks.faults.stage import Stage

SOURCES, WORKERS = 3, 4
WINDOW_MS = 10_000
BATCH = 20_000  # messages at most
_LATENESS = 60  # s: a broker or producer that is stopped delays some messages, not others
_UNSKEW = (sys.executable, "-c", "from unskew.apps.cli import main; main()")
_DISTINCT = ("--work=unskew.works:Distinct", "--work-option=id=offset", "--work-option=kind=int64")
#: Groupings that have states or plans → the short name in their topics' names, and options of the command.
GROUPINGS = {
    "PARTIAL_KEY": ("pkg",),
    "DYNAMIC_KEY": ("dkg", "--warm-up=2", "--check-interval=1", "--promotion-period=1"),
    "BOUNDED_LOAD": ("bl",),
    # plans in nearly every batch, and states that move by them
    "MIXED": ("mixed", "--grouping-option=theta_max=0", "--grouping-option=window=1", *_DISTINCT),
}


class Contestant(ABC):
    """What runs under the faults.

    Attributes
    ----------
    name : str
        What it is, in words.
    lacks : tuple of str
        Kinds of faults that nothing is promised for, or that can't reach it.
    more_batches : int or None
        After so many batches beyond the one that took the last message all is written; None: the program drains by
        itself (``--until-drained``).

    """

    lacks: tuple[str, ...] = ()

    @property
    def more_batches(self) -> int | None:
        """As said above."""
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
        """What became of them, judged against that; ``abandoned`` as for ``oracle.truth.judge``."""


@dataclass(frozen=True)
class Topology(Contestant):
    """`unskew topology`, with windows by batch time or by event time."""

    grouping: str
    time: str

    @property
    def name(self) -> str:
        """As ``Contestant``."""
        return f"topology {self.grouping}{', Distinct' if self.remembers else ''}, {self.time} time"

    @property
    def remembers(self) -> bool:
        """Whether its workers have states."""
        return bool({*_DISTINCT} & {*GROUPINGS[self.grouping]})

    @property
    def run(self) -> str:
        """The run's name, with which its topics' names begin; after the source topic's."""
        return f"s{SOURCES}-w{WORKERS}-{GROUPINGS[self.grouping][0]}"

    def command(self, stage: "Stage") -> list[str]:
        """As ``Contestant``."""
        by = ["--time", "event", "--lateness", str(_LATENESS)] if self.time == "event" else []
        return [
            *(*_UNSKEW, "topology", "CLUSTER", "COUNTRY_SKEW_R80", self.grouping, stage.topic),
            *(str(SOURCES), str(WORKERS), "x0"),
            *("--master", stage.cluster.master, "--checkpoint", str(stage.checkpoint)),
            *("--bootstrap-servers", stage.broker.bootstrap_servers, "--window", str(WINDOW_MS / 1000), *by),
            *("--max-tuples", str(BATCH), *GROUPINGS[self.grouping][1:]),
            *(f"--conf={name}={value}" for name, value in stage.conf.items()),
        ]

    def expected(self, stage: "Stage", records: Iterable[Record]) -> truth.Truth:
        """As ``Contestant``."""
        by_event = self.time == "event"
        return truth.truth_of(
            stage.topic, records, WINDOW_MS,
            lambda record: record.time_ms if by_event else stage.batches.time_of(record.partition, record.offset),
            FUTURE_MS if by_event else 1 << 62,
        )  # fmt: skip

    def judge(self, stage: "Stage", expected: truth.Truth, *, abandoned: bool = False) -> Verdict:
        """As ``Contestant``."""
        names = [f"{stage.topic}-{self.run}-{what}" for what in ("aggregator", "distribution")]
        names += [f"{stage.topic}-rejected", *([f"{stage.topic}-{self.run}-results"] if self.remembers else [])]
        published = [truth.Published.of(truth.topic_records(stage.connection, name)) for name in names]
        counted, distribution, rejected = published[:3]
        told = published[3] if self.remembers else None
        return truth.judge(expected, counted, rejected, [distribution], told, abandoned=abandoned)


@dataclass(frozen=True)
class Session(Contestant):
    """A query of a user's own, `benchmarks.faults.session`, which writes files."""

    query: str
    grouping: str
    lacks = ("influxdb", "influxdb-stopped", "remade")  # it has neither metrics nor a source of ours

    @property
    def name(self) -> str:
        """As ``Contestant``."""
        return f"own session, {self.query} {self.grouping}"

    @property
    def more_batches(self) -> int:
        """As ``Contestant``: states of split keys meet every two batches."""
        return 8 if self.query == "keyed_map" else 0

    def command(self, stage: "Stage") -> list[str]:
        """As ``Contestant``."""
        return [
            *(sys.executable, "-m", "benchmarks.faults.session", self.query, self.grouping),
            *(stage.broker.bootstrap_servers, stage.topic, str(stage.checkpoint), str(stage.output)),
            *("--master", stage.cluster.master, "--workers", str(WORKERS), "--most", str(BATCH)),
            *(f"--conf={name}={value}" for name, value in stage.conf.items()),
            f"--conf=spark.sql.shuffle.partitions={WORKERS}",
        ]

    def expected(self, stage: "Stage", records: Iterable[Record]) -> Counter[rows.Row]:
        """As ``Contestant``."""
        return rows.placed(records) if self.query == "balance" else rows.remembered(records)

    def judge(self, stage: "Stage", expected: Counter[rows.Row], *, abandoned: bool = False) -> Verdict:
        """As ``Contestant``."""
        return rows.judge_rows(expected, rows.rows_of(rows.written(stage.output)))


#: One after the other, by seed. Neighbours differ, so that a short campaign has some of each.
CONTESTANTS: tuple[Contestant, ...] = (
    Topology("BOUNDED_LOAD", "batch"),
    Topology("MIXED", "event"),
    Session("balance", "BOUNDED_LOAD"),
    Session("keyed_map", "D_CHOICES"),
    Topology("PARTIAL_KEY", "event"),
    Session("keyed_map", "BOUNDED_LOAD"),
    Topology("DYNAMIC_KEY", "batch"),
    Topology("MIXED", "batch"),
    Session("keyed_map", "KEY"),
    Topology("BOUNDED_LOAD", "event"),
    Topology("PARTIAL_KEY", "batch"),
    Topology("DYNAMIC_KEY", "event"),
    *(Session("keyed_map", name) for name in ("MIXED",) if name in STANDALONE),
)


def contestant(seed: int) -> Contestant:
    """The contestant of a seed's run; neighbouring seeds have all of them."""
    return CONTESTANTS[seed % len(CONTESTANTS)]
