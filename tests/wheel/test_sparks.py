"""`balance`, `balanced_map` and `keyed_map` on other versions of Spark: the same queries, the same truth.

    make test-matrix [SPARKS="4.0.4 4.3.0"]

Each version has environments of its own, in which the wheel is installed as a user would.
"""

import os
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oracle.rows import written
from tests.wheel.installed import MODES, Installed

pytestmark = [pytest.mark.spark, pytest.mark.slow]
VERSIONS = os.environ.get("SPARKS", "").split()
WORKERS, FILES, ROWS = 4, 10, 300
GAP = timedelta(seconds=2)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
#: The workers of the hot key, which has three of five rows, by grouping: so few at least, so many at most.
HOT = {"KEY": (1, 1), "PARTIAL_KEY": (2, 2), "BOUNDED_LOAD": (3, WORKERS), "PLANNED": (3, WORKERS)}


@pytest.fixture(scope="session", params=VERSIONS)
def spark(request, wheel) -> Installed:
    return Installed.of(request.param, wheel)


@pytest.fixture(params=MODES)
def mode(request, spark) -> str:
    if request.param == "client" and spark.lacks_client:
        pytest.skip(f"there is no thin client of Spark {spark.version}: {spark.lacks_client}")
    return request.param


@pytest.fixture
def stream(tmp_path) -> pa.Table:
    """The files of a stream, and its rows: three of five have one key. Each id comes twice. Then the clock goes on."""
    rng = np.random.default_rng(7)
    tables = []
    (tmp_path / "in").mkdir()
    for number in range(FILES + 2):
        ids = np.arange(ROWS * number, ROWS * (number + 1)) // 2
        keys = [f"u{key}" for key in np.where(ids % 5 < 3, 0, ids % 40)]
        times = [BEGIN + timedelta(seconds=10 * number, milliseconds=int(ms)) for ms in rng.integers(0, 10_000, ROWS)]
        if number >= FILES:
            keys, ids, times = ["end"], ids[:1], [BEGIN + timedelta(days=number)]
        table = pa.table({"key": keys, "id": ids, "at": pa.array(times, pa.timestamp("us", "UTC"))})
        file = tmp_path / "in" / f"{number:02}.parquet"
        pq.write_table(table, file)
        os.utime(file, (number + 1.0, number + 1.0))  # Spark takes the oldest first
        tables.append(table)
    return pa.concat_tables(tables)


def rows(folder: Path) -> pa.Table:
    return pa.concat_tables(written(folder / "out"))


def pairs(table: pa.Table) -> Counter[tuple[str, int]]:
    return Counter(zip(table["key"].to_pylist(), table["id"].to_pylist(), strict=True))


def require_placed(found: pa.Table, stream: pa.Table, grouping: str) -> None:
    """Each row is there once, in the partition of its worker, and a key has as many workers as the grouping allows."""
    assert pairs(found) == pairs(stream)
    assert found["worker"] == found["partition"]
    workers = defaultdict(set)
    for key, worker in zip(found["key"].to_pylist(), found["worker"].to_pylist(), strict=True):
        workers[key].add(worker)
    least, most = HOT[grouping]
    assert least <= len(workers["u0"]) <= most
    assert max(map(len, workers.values())) <= most
    assert len(set.union(*workers.values())) == WORKERS


def sessions(stream: pa.Table) -> Counter[tuple[str, int, int, int]]:
    """The sessions of all keys: (key, start, last, count), times in ms; without the last rows' key."""
    times = defaultdict(list)
    for key, at in zip(stream["key"].to_pylist(), stream["at"].to_pylist(), strict=True):
        times[key].append(at)
    found: Counter[tuple[str, int, int, int]] = Counter()
    for key, moments in times.items():
        moments.sort()
        ends = [n for n, (one, other) in enumerate(pairwise(moments)) if other - one > GAP]
        for first, last in zip([0, *(n + 1 for n in ends)], [*ends, len(moments) - 1], strict=True):
            start, end = (round(1000 * moments[n].timestamp()) for n in (first, last))
            found[key, start, end, last - first + 1] += 1
    return Counter({each: number for each, number in found.items() if each[0] != "end"})


def published(folder: Path) -> Counter[tuple[str, int, int, int]]:
    found = rows(folder)
    columns = (found[name].to_pylist() for name in ("key", "start", "last", "count"))
    return Counter(each for each in zip(*columns, strict=True) if each[0] != "end")


@pytest.mark.parametrize("grouping", ["BOUNDED_LOAD", "PLANNED"])
def test_rows_of_a_static_frame(spark, mode, grouping, stream, tmp_path):
    with spark.query(mode, "static", grouping, tmp_path) as query:
        query.wait()
    require_placed(pq.read_table(tmp_path / "out"), stream, grouping)


@pytest.mark.parametrize("grouping", ["KEY", "PARTIAL_KEY", "PLANNED"])
def test_rows_of_a_stream(spark, mode, grouping, stream, tmp_path):
    with spark.query(mode, "rows", grouping, tmp_path) as query:
        query.wait()
    require_placed(rows(tmp_path), stream, grouping)


def test_work_at_the_workers(spark, mode, stream, tmp_path):
    with spark.query(mode, "map", "BOUNDED_LOAD", tmp_path) as query:
        query.wait()
    assert pairs(rows(tmp_path)) == pairs(stream)


@pytest.mark.parametrize("grouping", ["KEY", "D_CHOICES"])
def test_states_by_batch_time(spark, mode, grouping, stream, tmp_path):
    with spark.query(mode, "ids", grouping, tmp_path) as query:
        query.wait()
    assert pairs(rows(tmp_path)) == Counter({*pairs(stream)})


@pytest.mark.parametrize("grouping", ["KEY", "D_CHOICES"])
def test_states_by_event_time(spark, mode, grouping, stream, tmp_path):
    with spark.query(mode, "sessions", grouping, tmp_path) as query:
        query.wait()
    assert published(tmp_path) == sessions(stream)


@pytest.mark.parametrize("kind", ["rows", "ids"])
def test_kills(spark, mode, kind, stream, tmp_path):
    """The Python workers are killed, then the driver, and it starts again from its checkpoint."""
    with spark.query(mode, kind, "PARTIAL_KEY", tmp_path) as query:
        query.goes_on(2)
        assert query.kill_python_workers()
        query.goes_on(5)
        query.kill()
    with spark.query(mode, kind, "PARTIAL_KEY", tmp_path) as query:
        query.wait()
    if kind == "rows":
        require_placed(rows(tmp_path), stream, "PARTIAL_KEY")
    else:
        assert pairs(rows(tmp_path)) == Counter({*pairs(stream)})
