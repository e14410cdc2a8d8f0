"""What a tuple of a stream costs the user's own work, measured here on a sample of the stream."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from unskew.apps.cli.simulation.input_stream import StreamSpec, read_with_columns, take_rows
from unskew.apps.cli.simulation.time_model import TupleCost
from unskew.apps.operators import KeyedOperator, Now
from unskew.apps.worker.worker import Work, describe_error
from unskew.errors import UsageError

#: Tuples that are sampled at most, and the time (s) after which no other part of them is measured.
MOST, PATIENCE = 20_000, 5.0
_FIRST, _LARGEST = 100, 2000  # tuples of a part
_PART = 0.1  # s, what a part should take
_PARTS = 30
_LIKELY = 2.0  # standard errors of a mean
#: The columns of a topic's messages that a sample has.
_OF_MESSAGES: dict[str, Callable[[Any], Any]] = {
    "value": lambda message: message.value(),
    "offset": lambda message: message.offset(),
    "partition": lambda message: message.partition(),
    "timestamp": lambda message: message.timestamp()[1],
}


def read_sample(stream: StreamSpec, settings: Mapping[str, Any]) -> tuple[Work | KeyedOperator, pa.RecordBatch]:
    """A work, and the first tuples of a stream as the work gets them: ``key``, ``time`` (ms) and its columns.

    A file has its own columns, which are text unless it is Parquet. A topic has those of its messages: value, offset,
    partition, timestamp (ms). Generators and datasets have no others. ``time`` is the tuple's number. The settings are
    ``work``, and ``work_columns`` if it has some, as a run's settings have them.

    Raises ``UsageError`` if the stream has no such column, or no tuples.
    """
    work = settings["work"]
    columns = dict.fromkeys((*settings.get("work_columns", ()), *getattr(work, "columns", ())))
    wanted = [column for column in columns if column not in ("key", "time")]
    found: dict[str, Any] = {}
    if stream.topic is not None:
        if unknown := [column for column in wanted if column not in _OF_MESSAGES]:
            raise UsageError(f"a message has no column {unknown[0]!r} here; valid: {', '.join(_OF_MESSAGES)}")
        functions = {column: _OF_MESSAGES[column] for column in wanted}
        read, found = read_with_columns(stream.topic, stream.field, MOST, stream.connect(), functions)
        keys: Any = read.keys
    elif stream.file is not None:
        parts = list(take_rows(stream.rows(*wanted), MOST))
        keys = pa.chunked_array([part.keys for part in parts], pa.string()).combine_chunks()
        found = {column: _concat_arrays([part.others[column] for part in parts]) for column in wanted}
    elif wanted:
        raise UsageError(f"stream {stream.spec!r} has no column {wanted[0]!r}; valid: a file or a topic has columns")
    else:
        keys = next(replace(stream, tuples=MOST).blocks(MOST), None)
    if keys is None or not len(keys):
        raise UsageError(f"stream {stream.spec!r} has no tuples")
    try:
        texts = keys.cast(pa.string())
    except pa.ArrowInvalid:
        raise UsageError(f"stream {stream.spec!r} has keys that are no text in UTF-8, which works get") from None
    found |= {"key": texts, "time": np.arange(len(keys), dtype=np.int64)}
    return work, pa.RecordBatch.from_pydict(found)


def _concat_arrays(parts: list[pa.Array]) -> pa.Array:
    return pa.concat_arrays(parts) if parts else pa.nulls(0)


def measure_cost(work: Work | KeyedOperator, sample: pa.RecordBatch) -> TupleCost:
    """What a tuple costs a work, in this process, by a sample of at least one tuple.

    The work gets one part of the sample after the other, each of which takes about a tenth of a second. The first part
    warms it up and isn't counted. The spread is twice the standard error of the mean over the parts. CPU is that of the
    whole process.

    A work with states updates each part twice, in order to be measured with states that are there, and settles. A
    topology keeps the states in Spark, which isn't measured (``CostConstants.state``).

    Raises ``UsageError`` if the work raises on a part.
    """
    run = _run_operator(work) if isinstance(work, KeyedOperator) else _run_function(work)
    try:
        run(sample.slice(0, _FIRST))  # compiles, connects, fills caches
        wall, _ = run(sample.slice(0, _FIRST))
        size = int(np.clip(_PART / max(wall, 1e-9) * min(_FIRST, len(sample)), 1, _LARGEST))
        began, taken = time.monotonic(), []
        for part in _iterate_slices(sample, size):
            taken.append([1000 * seconds / len(part) for seconds in run(part)])
            if len(taken) == _PARTS or time.monotonic() - began > PATIENCE:
                break
    except Exception as error:  # whatever the user's code may raise
        raise UsageError(f"the work failed on the sample ({describe_error(work, error)})") from error  # pyright: ignore[reportArgumentType]
    walls, cpus = np.array(taken).T
    mean = float(walls.mean())
    spread = _LIKELY * float(walls.std(ddof=1)) / len(walls) ** 0.5 if len(walls) > 1 else mean
    return TupleCost(mean, min(spread, mean), float(cpus.mean()) / mean, isinstance(work, KeyedOperator))


def _iterate_slices(sample: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    """Parts of a size, from the start again where the sample ends."""
    while True:
        for at in range(0, len(sample), size):
            yield sample.slice(at, size)


def _run_function(work: Work) -> Callable[[pa.RecordBatch], tuple[float, float]]:
    return lambda part: _time_call(lambda: work(part.drop_columns("time")))


def _run_operator(work: KeyedOperator) -> Callable[[pa.RecordBatch], tuple[float, float]]:
    def run(part: pa.RecordBatch) -> tuple[float, float]:
        coded = part.column("key").dictionary_encode()
        slotted = part.append_column("slot", coded.indices.cast(pa.int32()))
        k, now = len(coded.dictionary), Now(0, 0)
        new = pa.RecordBatch.from_arrays([pa.nulls(k, each.type) for each in work.state], schema=work.state)
        before = work.update(slotted, new, now)[1]
        return _time_call(lambda: work.on_merge(before, work.update(slotted, before, now)[1], now))

    return run


def _time_call(call: Callable[[], object]) -> tuple[float, float]:
    """Wall seconds of a call, without those in which other processes had the core, and its CPU seconds."""
    wall, cpu, delayed = time.perf_counter(), time.process_time(), _read_delay()
    call()
    return time.perf_counter() - wall - (_read_delay() - delayed), time.process_time() - cpu


def _read_delay() -> float:
    """How long this thread could have run, but had no core (s). 0 where the system doesn't say."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0
