"""What a campaign's runs hold against the faults: topologies, and queries of a user's own with `balance`, `keyed_map`.

Each says how it is started, what its source topic's messages must become, and how that is judged.
"""

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from evidence.faults.producer import future_from
from evidence.faults.stage import Contestant, Stage
from tests.oracle import rows, truth
from tests.oracle.truth import Published, Record, Verdict
from unskew.apps.cli.result_topics import reader
from unskew.apps.cli.result_topics.reader import ALL, RecordSelection

WORKERS = 4
WINDOW_MS = 10_000
BATCH = 20_000  # messages at most
_LATENESS = 60  # s: a broker or producer that is stopped delays some messages, not others
_UNSKEW = (sys.executable, "-c", "from unskew.apps.cli.main import main; main()")
_DISTINCT = ("--work=unskew.operators:Distinct", "--work-option=id=offset", "--work-option=kind=int64")
_RUNNING = ("--work=unskew.operators:Statistics", "--work-option=value=offset", "--work-option=merge_every=2 batches")
_FLAKY = ("--work=evidence.faults.flaky:flaky", "--work-option=columns=offset", "--work-option=errors=reject")
#: Groupings that have states or plans → the short name in their topics' names, and options of the command.
GROUPINGS = {
    "PARTIAL_KEY": ("pkg",),
    "DYNAMIC_KEY": ("dkg", "-g=warm_up=2", "-g=check_interval=1", "-g=promotion_period=1"),
    "BOUNDED_LOAD": ("bl",),
    "PLANNED": ("pl",),
    # plans in nearly every batch, and states that move by them
    "MIXED": ("mixed", "--grouping-option=theta_max=0", "--grouping-option=window=1", *_DISTINCT),
}


#: A key's result in a window: how many tuples it has, and their smallest and greatest offset.
Summary = tuple[int, int, int]


def summaries(expected: truth.Truth) -> dict[tuple[str, str], Summary]:
    """(window, key) → the summary that a reader of the results must find at last."""
    ends: dict[tuple[str, str], tuple[int, int]] = {}
    for window, key, offset in expected.ids:
        least, most = ends.get((window, key), (offset, offset))
        ends[window, key] = min(least, offset), max(most, offset)
    return {place: (count, *ends[place]) for place, count in expected.counts.items()}


def kept(published: Iterable[Record]) -> dict[tuple[str, str], Summary]:
    """(window, key) → the summary that `unskew results` keeps of those that were published one after the other."""
    chosen = RecordSelection(ALL)
    for record in published:
        chosen.add([reader.Record(record.key, record.value or b"null")])
    results = [record.parse() for records in chosen.windows.values() for record in records.values()]
    return {
        (each["tags"]["window"], each["key"]): tuple(int(each["fields"][name]) for name in ("count", "min", "max"))
        for each in results
    }  # pyright: ignore[reportReturnType]  three names are three numbers


@dataclass(frozen=True)
class Topology(Contestant):
    """`unskew topology`, with windows by batch time or by event time.

    With ``changing`` a work publishes a key's summary each time that the key has changed. Then the records of one Kafka
    key have several values, and the record of the latest batch is the valid one.

    With ``flaky`` a work fails at random, and a message on which it failed must be rejected, and not be counted.

    With ``once`` results are published exactly once, and none may be read twice.
    """

    grouping: str
    time: str
    changing: bool = False
    flaky: bool = False
    once: bool = False

    @property
    def name(self) -> str:
        works = {
            ", Distinct": self.remembers,
            ", Running": self.changing,
            ", a flaky work": self.flaky,
            ", exactly once": self.once,
        }
        work = "".join(name for name, has in works.items() if has)
        return f"topology {self.grouping}{work}, {self.time} time"

    @property
    def remembers(self) -> bool:
        """Whether its workers have states."""
        return bool({*_DISTINCT} & {*GROUPINGS[self.grouping]})

    @property
    def run(self) -> str:
        """The run's name, with which its topics' names begin; after the source topic's."""
        return f"s{self.sources}-w{WORKERS}-{GROUPINGS[self.grouping][0]}"

    def command(self, stage: Stage) -> list[str]:
        by = ["--time", "event", "--lateness", str(_LATENESS)] if self.time == "event" else []
        return [
            *(*_UNSKEW, "topology", "CLUSTER", "COUNTRY_SKEW_R80", self.grouping, stage.topic),
            *(str(self.sources), str(WORKERS), "x0"),
            *("--master", stage.cluster.master, "--checkpoint", str(stage.checkpoint)),
            *("--bootstrap-servers", stage.bootstrap_servers, "--window", str(WINDOW_MS / 1000), *by),
            *("--max-tuples", str(BATCH), *GROUPINGS[self.grouping][1:], *(_RUNNING if self.changing else ())),
            *(_FLAKY if self.flaky else ()),
            *(("--delivery=exactly-once",) if self.once else ()),
            *(f"--conf={name}={value}" for name, value in stage.conf.items()),
        ]

    def expected(self, stage: Stage, records: Iterable[Record]) -> truth.Truth:
        by_event = self.time == "event"
        failed = truth.failures(self._rejected(stage)) if self.flaky else {}
        future = future_from() if by_event else 1 << 62

        def time_of(record: Record) -> int | None:
            return record.time_ms if by_event else stage.batches.time_of(record.partition, record.offset)

        return truth.truth_of(stage.topic, records, WINDOW_MS, time_of, future, failed)

    def judge(self, stage: Stage, expected: truth.Truth, *, abandoned: bool = False) -> Verdict:
        results = f"{stage.topic}-{self.run}-results"
        names = [f"{stage.topic}-{self.run}-{what}" for what in ("aggregator", "distribution")]
        names += [results] if self.remembers else []
        published = [Published.of(truth.topic_records(stage.connection, name)) for name in names]
        counted, distribution = published[:2]
        told = published[2] if self.remembers else None
        rejected = Published.of(self._rejected(stage))
        verdict = truth.judge(expected, counted, rejected, [distribution], told, abandoned=abandoned)
        if self.changing:
            # A window's counts are published when it closes. Without that its results are not at their end either.
            windows = {orjson.loads(value)["tags"]["window"] for value in counted.last.values()}
            newest = max(windows, default="") if abandoned else None
            changes = kept(truth.topic_records(stage.connection, results))
            judge_kept(verdict, summaries(expected), changes, newest)
        if self.once:
            judge_once(verdict, [counted, distribution, rejected, *([told] if told is not None else [])])
        return verdict

    def _rejected(self, stage: Stage) -> Iterable[Record]:
        """The records of the rejected messages."""
        return stage.following(truth.topic_records(stage.connection, f"{stage.topic}-rejected"))


def judge_once(verdict: Verdict, published: Iterable[Published]) -> None:
    """Count in a verdict, as doubled, the records that a reader of committed ones gets more than once."""
    again = sum((each.again for each in published), Counter[str]())
    verdict.doubled += again.total()
    verdict.differ("published more than once (key, times more)", again.items())


def judge_kept(
    verdict: Verdict,
    expected: dict[tuple[str, str], Summary],
    found: dict[tuple[str, str], Summary],
    before: str | None = None,
) -> None:
    """Count in a verdict, as altered, the results that a reader keeps and that aren't the expected ones.

    ``before``: only windows before this one are compared.
    """
    differing = {
        (place, expected.get(place), found.get(place))
        for place in expected.keys() | found.keys()
        if expected.get(place) != found.get(place) and (before is None or place[0] < before)
    }
    verdict.altered += len(differing)
    verdict.differ("kept ((window, key), summary expected, summary found)", differing)


@dataclass(frozen=True)
class Session(Contestant):
    """A query of a user's own, `evidence.faults.session`, which writes files.

    With ``shuffled`` the query is behind a shuffle: where an executor is lost, rows may come in another order.

    With PLANNED, `balance` must also keep each worker of each batch within its cap.
    """

    query: str
    grouping: str
    shuffled: bool = False
    # It has neither metrics, nor a wait before it begins, nor a source of ours.
    lacks = ("influxdb", "influxdb-stopped", "supervised", "remade")

    @property
    def name(self) -> str:
        return f"own session, {self.query} {self.grouping}{' behind a shuffle' if self.shuffled else ''}"

    @property
    def more_batches(self) -> int:
        """As ``Contestant``: states of split keys meet every two batches."""
        return 8 if self.query == "keyed_map" else 0

    def command(self, stage: Stage) -> list[str]:
        return [
            *(sys.executable, "-m", "evidence.faults.session", self.query, self.grouping),
            *(stage.bootstrap_servers, stage.topic, str(stage.checkpoint), str(stage.output)),
            *("--master", stage.cluster.master, "--workers", str(WORKERS), "--most", str(BATCH)),
            *(f"--conf={name}={value}" for name, value in stage.conf.items()),
            f"--conf=spark.sql.shuffle.partitions={WORKERS}",
            *(("--shuffled",) if self.shuffled else ()),
        ]

    def expected(self, stage: Stage, records: Iterable[Record]) -> Counter[rows.Row]:
        return rows.placed(records) if self.query == "balance" else rows.remembered(records)

    def judge(self, stage: Stage, expected: Counter[rows.Row], *, abandoned: bool = False) -> Verdict:
        verdict = rows.judge_rows(expected, rows.rows_of(rows.written(stage.output)))
        if self.query == "balance" and self.grouping == "PLANNED":
            over = rows.beyond_cap(rows.written(stage.output), stage.batches.number_of, WORKERS)
            verdict.altered += len(over)
            verdict.differ("worker beyond its cap ((batch, worker), rows, cap)", over)
        return verdict


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
    Session("keyed_map", "BOUNDED_LOAD", shuffled=True),
    Topology("DYNAMIC_KEY", "event"),
    Topology("BOUNDED_LOAD", "batch", changing=True),
    Session("balance", "BOUNDED_LOAD", shuffled=True),
    Topology("BOUNDED_LOAD", "event", changing=True),
    Topology("PARTIAL_KEY", "event", flaky=True),
    Topology("PLANNED", "batch"),
    Session("balance", "PLANNED"),
    Topology("PLANNED", "event", changing=True),
    Session("keyed_map", "PLANNED"),
    Session("keyed_map", "MIXED"),
    Topology("BOUNDED_LOAD", "batch", once=True),
    Topology("MIXED", "event", once=True),
    Topology("PLANNED", "event", once=True),
)


def contestant(seed: int) -> Contestant:
    """The contestant of a seed's run; neighbouring seeds have all of them."""
    return CONTESTANTS[seed % len(CONTESTANTS)]
