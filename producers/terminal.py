"""The output of `unskew produce`: an upload with its progress and summary, or a dataset's statistics.

Ctrl-C ends both early. They then show how far they came.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from unskew.errors import UsageError
from unskew.kafka import topics
from unskew.kafka.connection import Connection
from unskew.producers.datasets.interface import Dataset
from unskew.producers.pace import Pace, Rate, Replay
from unskew.producers.partitioning import Partitioner, Placement
from unskew.producers.publish import DeliveryFault, publish_dataset
from unskew.producers.readers.rejected_records import RejectLog
from unskew.producers.resumption import UploadJournal
from unskew.producers.skew import compute_statistics, statistics_table
from unskew.shell import record_stop_signal

PLAIN_EVERY = 5.0  # seconds between two plain lines


class UploadProgress:
    """The progress of an upload: a live line on a terminal, a plain line every few seconds elsewhere.

    It is a context manager, and ``publish_dataset`` calls its ``update``. ``done`` returns the share that is done, 0 to
    1. Otherwise the number of records measures it. If that is unknown, too, there is no ETA.
    """

    def __init__(
        self, title: str, records: int | None, console: Console, done: Callable[[], float | None] | None = None
    ) -> None:
        self._title = title
        self._records = records
        self._done = done or (lambda: None)
        self._sent = 0
        self._console = console
        self._begun = self._printed = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[sent]:,} records, {task.fields[rate]:,.0f}/s, {task.fields[size]:,.1f} MB"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(title, total=None, sent=0, rate=0.0, size=0.0)

    def __enter__(self) -> Self:
        self._begun = self._printed = time.monotonic()
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def update(self, records: int, size: int) -> None:
        """Show how many records and bytes have been sent since the start."""
        now = time.monotonic()
        self._sent = records
        rate, share = records / max(now - self._begun, 1e-9), self._done()
        if share is None and self._records:
            share = records / self._records
        total = None if share is None else 1.0
        self._bar.update(self._task, total=total, completed=share, sent=records, rate=rate, size=size / 1e6)
        if self._bar.disable and now - self._printed >= PLAIN_EVERY:
            self._printed = now
            line = f"{self._title}: {records:,}{f' of {self._records:,}' if self._records else ''} records"
            if share:
                line += f" ({share:.0%}), {(now - self._begun) * (1 - share) / share:,.0f} s left"
            self.line(f"{line}, {rate:,.0f}/s, {size / 1e6:,.1f} MB")

    def line(self, text: str) -> None:
        """Print a line of text, above the live one if there is one."""
        self._console.print(text, soft_wrap=True, markup=False)


@contextmanager
def stop_on_signal() -> Iterator[Callable[[], bool]]:
    """Within the context, the first SIGINT or SIGTERM makes the yielded function true. The second one kills."""
    received: list[int] = []

    def remember(number: int, _: FrameType | None) -> None:
        received.append(number)
        record_stop_signal(number)
        for each in before:
            signal.signal(each, signal.SIG_DFL)

    before = {number: signal.signal(number, remember) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def upload_dataset(
    connection: Connection,
    topic: str,
    dataset: Dataset,
    rejects: RejectLog,
    *,
    pace: Pace,
    placement: Placement | None,
    resume: bool,
) -> bool:
    """Publish a dataset with progress and a summary. Return False if the user stopped it.

    If a dataset can be read a second time, its upload keeps a journal, so that it can be resumed. Raises ``UsageError``
    if the upload can't be resumed, as the topic was made anew.
    """
    output = Console()
    journal = UploadJournal(topic, dataset) if resume or dataset.identity() is not None else None
    if journal and resume and journal.load() and journal.is_finished:
        journal.require_there(topics.end_offsets(connection, topic, committed=False))
        output.print(f"all of {dataset.name} is in {topic} already: nothing to resume", soft_wrap=True, highlight=False)
        return True
    with stop_on_signal() as stopped, _make_progress(dataset) as progress:
        try:
            summary = publish_dataset(
                connection,
                topic,
                dataset,
                pace=pace,
                placement=placement,
                progress=progress.update,
                complain=progress.line,
                stopped=stopped,
                journal=journal,
                resume=resume,
            )
        except DeliveryFault as fault:
            output.print(fault.summary.table())
            raise
    output.print(summary.table())
    rejects.show(output)
    if summary.interrupted and journal:
        output.print("To go on later: the same command with --resume", highlight=False)
    return not summary.interrupted


def show_dataset(dataset: Dataset, rejects: RejectLog) -> bool:
    """Print a dataset's first messages and statistics, and send nothing. Return False if the user stopped it."""
    output = Console()
    with stop_on_signal() as stopped, _make_progress(dataset) as progress:
        found = compute_statistics(dataset, progress=progress.update, stopped=stopped)
    for message in found.first:
        print(message.decode(errors="replace"))
    output.print(statistics_table(dataset, found))
    rejects.show(output)
    return not stopped()


def _make_progress(dataset: Dataset) -> UploadProgress:
    return UploadProgress(dataset.name, dataset.records, Console(stderr=True), dataset.progress)


def choose_pace(rate: float | None, speedup: float | None) -> Pace:
    """The pace according to --rate and --speedup."""
    if rate is not None and speedup is not None:
        raise UsageError("--rate and --speedup exclude each other")
    try:
        if speedup is not None:
            return Replay(speedup)
        return Pace() if rate is None else Rate(rate)
    except ValueError as error:
        raise UsageError(str(error)) from None


def make_partitioner(grouping: str | None, partitions: int, seed: int) -> Partitioner | None:
    """The partitioner according to --grouping. None without it."""
    if grouping is None:
        return None
    try:
        return Partitioner(grouping, partitions, seed=seed)
    except ValueError as error:
        raise UsageError(f"--grouping: {error}") from None


def ensure_partitions(connection: Connection, topic: str, partitions: int | None, default: int) -> int:
    """The number of the topic's partitions. A missing topic is made, with ``default`` unless --partitions is given."""
    there = topics.count_partitions(connection, topic)
    if there is None or partitions is not None:
        there = partitions or default
        topics.ensure_topic(connection, topic, there)
    return there
