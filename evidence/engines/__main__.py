"""Other engines beside ours: the same topic, the same result, on one machine and one broker.

    python -m evidence.engines [--jobs NAME ...] [--engines NAME ...] [--records N] [--repeats N]
    python -m evidence.engines --skews 0 20 50 80 100 [--picture FILE]
    python -m evidence.engines --latency [RATE] [--without-work] [--lateness S] [--warm-up S] [--seconds S]
    python -m evidence.engines --latency [RATE] --kill [--after S] [...]

Each contestant runs as a process of its own, in an environment of its own that is made when it is first asked for. They
take turns. A run ends as soon as all counts are in the output topic, and right; a wrong result has no rate.

The columns: *s*, from the start of the process until the broker appended the last count (median). *Messages/s*: all
messages over that time, with the start. *CPU*: seconds a million messages, of the process and all that it started.
*Memory*: the greatest sum of their proportional set sizes, sampled each second.

With ``--skews`` the job with work is run for several ratios of skew, in percent (``COUNTRY_SKEW_R0`` to ``R100``), and
the table and the picture have its messages/s.

With ``--latency`` the job with work gets a stream that goes on, at RATE messages/s, and the table has how late its
right results are (``latency``). ``--without-work`` takes the job ``count`` instead, and five partitions. With
``--kill`` the contestant is killed, and the table has for how long its results are late then, and whether the counts
are right in the end (``recovery``).
"""

import argparse
import math
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from confluent_kafka import Consumer, TopicPartition
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.table import Table

from evidence.engines import latency, recovery
from evidence.engines.contestants import CONTESTANTS, Contestant
from evidence.engines.environments import Unavailable
from evidence.engines.jobs import JOBS, Found, Job, Truth, published, send_last
from evidence.engines.latency import Latency, Stream, paced, pooled
from evidence.engines.loads import data_skew, whole
from evidence.engines.recovery import Recovery, killed
from evidence.engines.running import LOOK_EVERY, SETTLE, made, running
from evidence.speed.measuring import in_turns
from evidence.tables import make_table, print_table
from unskew.deploy.servers.broker import Broker
from unskew.grouping.measures import straggler_ratio
from unskew.grouping.registry import COLOURS
from unskew.kafka.connection import Connection
from unskew.kafka.reader import TopicReader
from unskew.kafka.topics import end_offsets

Of = TypeVar("Of")

_SILENCE = 420.0  # s without a new count, after which a run is given up: some write all at the end
_AFTER_ITS_END = 5.0  # s
_RATE = 400.0  # messages/s: the slowest, Flink, counts 512 to 668, with its start
_PARTITIONS = 5  # where latency is measured without work
_LONGEST = 1200.0  # s, after which a run is given up that still writes
#: Kafka Streams looks for windows that are over once a second, and then only if a message comes.
_AGAIN_AFTER = 2.0  # s


#: The table's columns of figures; the last two are of jobs with work.
COLUMNS = ("s", "messages/s", "CPU s a million", "memory, MiB", "max/mean", "skew, %")


class Measured(NamedTuple):
    """A run of a contestant. ``wrong`` says what is wrong; then the rest means nothing.

    ``loads`` are the messages that each worker got, int64[W]. None: they aren't known.
    """

    seconds: float = 0.0
    cpu: float = 0.0
    memory: float = 0.0
    messages: int = 0
    wrong: str = ""
    loads: NDArray[np.int64] | None = None

    @property
    def rate(self) -> float:
        """Messages/s."""
        return self.messages / self.seconds

    def cells(self) -> list[str]:
        """The cells of ``COLUMNS``, unless it is wrong."""
        cells = [f"{self.seconds:.1f}", f"{self.rate:,.0f}", f"{1e6 * self.cpu / self.messages:.2f}"]
        loads = self.loads
        balance = ("", "") if loads is None else (f"{straggler_ratio(loads):.2f}", f"{data_skew(loads):.0f}")
        return [*cells, f"{self.memory:,.0f}", *balance]

    def __str__(self) -> str:
        return self.wrong or f"{self.seconds:.1f} s, {self.cpu:.1f} s of CPU, {self.memory:,.0f} MiB"


_NO_PROGRAM = Measured(wrong="no program for this job")
Figures: TypeAlias = Measured | Latency | Recovery


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", nargs="+", choices=list(JOBS), default=list(JOBS))
    parser.add_argument("--engines", nargs="+", choices=list(CONTESTANTS), default=list(CONTESTANTS))
    parser.add_argument("--records", type=int, help="messages of each job")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--skews", nargs="+", type=int, choices=range(0, 101, 10), metavar="PERCENT", help="0, 10 … 100"
    )
    parser.add_argument("--picture", type=Path, help="rate over skew, a PNG")
    parser.add_argument(
        "--latency", nargs="?", type=float, const=_RATE, metavar="RATE", help=f"messages/s (default: {_RATE:g})"
    )
    parser.add_argument("--without-work", action="store_true", help="with --latency: count only, of five partitions")
    parser.add_argument("--lateness", type=float, default=1.0, help="with --latency: how late messages may be, s")
    parser.add_argument("--warm-up", type=float, default=20.0, help="with --latency: s after the first result")
    parser.add_argument("--seconds", type=float, default=60.0, help="with --latency: s that are measured")
    parser.add_argument("--kill", action="store_true", help="with --latency: kill each contestant, and start it again")
    parser.add_argument(
        "--after", type=float, default=90.0, help="with --kill: for how long the stream goes on then, s"
    )
    given = parser.parse_args()
    if given.latency is not None and not 0 < given.latency < math.inf:
        parser.error(f"argument --latency: {given.latency:g}; valid: above 0 (messages/s)")
    if given.without_work and (given.latency is None or given.kill):
        parser.error("argument --without-work: goes with --latency, and not with --kill")
    # By default Python ends at once, and a contestant would go on without us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "kafka") as broker:
        contest = Contest(Connection(broker.bootstrap_servers), [CONTESTANTS[each] for each in given.engines])
        if given.latency is not None:
            of = replace(JOBS["count"], partitions=_PARTITIONS) if given.without_work else JOBS["work"]
            job = replace(of, name="latency", rate=given.latency, late_ms=round(1000 * given.lateness))
            if given.kill:
                job = replace(job, name="kill", aim="recovery")
                stream = Stream(job, given.warm_up, given.seconds, given.after)
                print_table(contest.kill(stream, given.repeats))
                return
            stream = Stream(replace(job, aim="latency"), given.warm_up, given.seconds)
            print_table(contest.follow(stream, given.repeats))
            return
        if given.skews:
            found = {skew: contest.run(_job("work", given.records, skew), given.repeats) for skew in given.skews}
            print_table(contest.by_skew(found))
            if given.picture:
                draw(found, found[given.skews[0]], given.picture)
            return
        for name in given.jobs:
            print_table(contest.do(_job(name, given.records), given.repeats))


def _job(name: str, records: int | None, skew: int | None = None) -> Job:
    job = JOBS[name] if records is None else replace(JOBS[name], records=records)
    return job if skew is None else replace(job, name=f"{name}-{skew}", source_type=f"COUNTRY_SKEW_R{skew}")


class Contest:
    """Contestants before one broker. Those that can't be had are rows that say so."""

    def __init__(self, connection: Connection, engines: list[Contestant]) -> None:
        self._connection = connection
        self._engines = engines
        self._missing: dict[str, str] = {}
        self.versions: dict[str, str] = {}
        for engine in engines:
            try:
                self.versions[engine.name] = engine.version()
            except Unavailable as why:
                self._missing[engine.name] = str(why)

    def run(self, job: Job, repeats: int) -> dict[str, Measured]:
        """Publish a job's messages, and let all contestants do it in turns: the median of each."""
        truth = published(self._connection, f"engines-{job.name}", job)
        found = self._in_turns(job, partial(_run, self._connection, job, truth), repeats)
        return {name: _median(runs) for name, runs in found.items()}

    def do(self, job: Job, repeats: int) -> Table:
        """As ``run``: the table of a job."""
        title = f"{job.what}: {job.records:,} messages, W = {job.workers}"
        found = {name: [run] for name, run in self.run(job, repeats).items()}
        return self.table(title, COLUMNS if job.cost_ms else COLUMNS[:4], found)

    def follow(self, stream: Stream, repeats: int) -> Table:
        """Let all contestants follow a stream, in turns: the table of how late results are, in all repeats."""
        found = self._in_turns(stream.job, partial(paced, self._connection, stream), repeats)
        title = f"{stream}, for {stream.seconds:g} s, times in ms"
        return self.table(title, latency.COLUMNS, {name: [pooled(runs)] for name, runs in found.items()})

    def kill(self, stream: Stream, repeats: int) -> Table:
        """Kill all contestants, in turns: the table has a row a repeat."""
        found = self._in_turns(stream.job, partial(killed, self._connection, stream), repeats)
        return self.table(f"{stream}, a kill of all processes", recovery.COLUMNS, found)

    def _in_turns(self, job: Job, run: Callable[[Contestant, int], Of], repeats: int) -> dict[str, list[Of]]:
        """Let all contestants that have a program for a job run in turns."""
        present = [each for each in self._engines if each.name in self.versions and each.does(job)]
        return in_turns({each.name: partial(run, each) for each in present}, repeats, str) if present else {}

    def table(self, title: str, columns: Sequence[str], found: Mapping[str, Sequence[Figures]]) -> Table:
        """A table with a row for each run of each contestant."""
        table = make_table("engine", *columns, "version", title=title)
        for name, version in self.versions.items():
            for of in found.get(name, [_NO_PROGRAM]):
                cells = [""] * len(columns) if of.wrong else of.cells()[: len(columns)]
                table.add_row(name, *cells, f"{version}: {of.wrong}" if of.wrong else version)
        return self._add_missing(table)

    def by_skew(self, found: Mapping[int, Mapping[str, Measured]]) -> Table:
        """The rates of a job, a row a contestant and a column a ratio of skew."""
        table = make_table("messages/s", *(f"{skew} %" for skew in found))
        for name in self.versions:
            runs = [each.get(name, _NO_PROGRAM) for each in found.values()]
            table.add_row(name, *(run.wrong or f"{run.rate:,.0f}" for run in runs))
        return self._add_missing(table)

    def _add_missing(self, table: Table) -> Table:
        for name, why in self._missing.items():
            table.add_row(name, *[""] * (len(table.columns) - 2), f"can't be had: {why}")
        return table


def _median(runs: list[Measured]) -> Measured:
    """The median of each number, and the last run's loads. A single wrong run makes all wrong."""
    if wrong := next((run.wrong for run in runs if run.wrong), ""):
        return Measured(wrong=wrong)
    seconds, cpu, memory = (statistics.median(values) for values in zip(*(run[:3] for run in runs), strict=True))
    return Measured(seconds, cpu, memory, runs[0].messages, loads=runs[-1].loads)


def draw(found: Mapping[int, Mapping[str, Measured]], names: Iterable[str], path: Path) -> None:
    """The picture of rate over skew, a line a contestant."""
    figure = Figure((8, 4.5), layout="constrained")
    axes = figure.subplots()
    skews = sorted(found)
    for name in names:
        right = [(skew, found[skew][name].rate) for skew in skews if not found[skew][name].wrong]
        grouping = name in COLOURS
        axes.plot(
            *zip(*right, strict=True),
            marker="o",
            label=f"{name} (unskew)" if grouping else name,
            color=COLOURS.get(name),
            linewidth=2.5 if grouping else 1.5,
            linestyle="-" if grouping else "--",
        )
    axes.set(xlabel="skew, %", ylabel="messages/s", xticks=skews, ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def _read(connection: Connection, topic: str, group: str) -> bool:
    """Whether a consumer group has committed the ends of all partitions."""
    ends = end_offsets(connection, topic)
    consumer = Consumer(connection.client(**{"group.id": group}))
    try:
        committed = consumer.committed([TopicPartition(topic, partition) for partition in ends], timeout=5.0)
    finally:
        consumer.close()
    return all(each.offset >= ends[each.partition] for each in committed)


def _run(connection: Connection, job: Job, truth: Truth, engine: Contestant, repeat: int) -> Measured:
    """Run a contestant until all counts are there."""
    with tempfile.TemporaryDirectory(prefix=f"{repeat}-") as name:
        folder = Path(name)
        topic = f"engines-{job.name}"
        started = engine.start(job, connection.bootstrap_servers, engine.reads(job, topic), folder)
        for written in filter(None, (started.output, started.report)):
            made(connection, written, job.partitions)
        began = time.time()
        found, results = Found(job.once, job.query), engine.reading(job)
        closes, send_at = engine.closes(job, topic, started.output), 0.0
        with running(started, folder) as at_work, TopicReader(connection, started.output) as reader:
            usage = at_work.usage
            over = time.monotonic() + _SILENCE
            end_at = time.monotonic() + _LONGEST
            while not found.all_of(truth) and time.monotonic() < min(over, end_at):
                usage.look()
                if usage.too_much:
                    break
                for message in reader.new(LOOK_EVERY):
                    found.add(results(message.key(), message.value() or b""), message.timestamp()[1])
                    over = time.monotonic() + _SILENCE
                    send_at = time.monotonic() + _AGAIN_AFTER
                if at_work.process.poll() is not None:
                    over = min(over, time.monotonic() + _AFTER_ITS_END)
                if closes and time.monotonic() > send_at and _read(connection, topic, started.output):
                    send_last(connection, closes, job, truth)
                    send_at = time.monotonic() + _AGAIN_AFTER
            usage.look()
            if found.once:
                for message in reader.new(SETTLE):
                    found.add(results(message.key(), message.value() or b""), message.timestamp()[1])
            wrong = found.wrong(truth)
            if wrong:
                wrong += f" (given up after {time.time() - began:.0f} s, at {usage.memory:,.0f} MiB)"
                at_work.complain(wrong)
            shown = started.loads if job.cost_ms and not wrong else None
            loads = whole(shown, truth.messages, job.workers) if shown else None
        return Measured(found.last_ms / 1000 - began, usage.cpu, usage.memory, truth.messages, wrong, loads)


if __name__ == "__main__":
    main()
