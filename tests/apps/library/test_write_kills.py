"""A stream that writes a table as a process of its own: whatever is killed, a reader sees each row once."""

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.apps.library import write_query
from tests.apps.library.table_sessions import SPARKS, TableSession
from tests.harness.query import KilledQuery
from tests.harness.streams import write_in_order
from tests.waiting import awaited

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(1800)]

ROWS, BATCHES, DAYS = 2_000, 20, 20


def write_files(folder: Path, seed: int) -> Counter[tuple[int, str]]:
    """A file a batch. Half of the rows have one day."""
    folder.mkdir()
    rows: Counter[tuple[int, str]] = Counter()
    for number in range(BATCHES):
        rng = np.random.default_rng([seed, number])
        days = np.where(rng.random(ROWS) < 0.5, 0, rng.integers(0, DAYS, ROWS))
        table = pa.table({"id": np.arange(ROWS) + ROWS * number, "day": [f"d{day:02d}" for day in days.tolist()]})
        write_in_order(folder, number, table)
        rows.update(zip(table["id"].to_pylist(), table["day"].to_pylist(), strict=True))
    return rows


@pytest.mark.takes(90)
@pytest.mark.nightly(group="kills")
@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_each_row_is_there_once_whatever_is_killed(tmp_path, tmp_path_factory, kind, seed):
    session = TableSession.of(kind, SPARKS[kind], tmp_path_factory.mktemp("wheel"))
    rows = write_files(tmp_path / "in", seed)
    command = session.command(write_query.__file__, tmp_path)
    query = KilledQuery(command, tmp_path, session.environment, random.Random(seed))
    try:
        for harm in query.rng.sample([KilledQuery.dies, KilledQuery.is_killed] * 2, 4):
            harm(query)
        query.start(query.NEVER)
        awaited(lambda: query.is_running() and query.committed() == BATCHES - 1, "all files", every=1.0)
    finally:
        query.kill()
    session.run(write_query.__file__, tmp_path, "read")
    found = pq.read_table(tmp_path / "found")
    assert Counter(zip(found["id"].to_pylist(), found["day"].to_pylist(), strict=True)) == rows
