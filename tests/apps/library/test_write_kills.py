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
from tests.harness.query import QueryProcess
from tests.harness.streams import write_in_order
from tests.waiting import PATIENCE, awaited
from unskew.apps.checkpoint.location import Location

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(1800)]

ROWS, BATCHES, DAYS = 2_000, 20, 20
NEVER = "-1"  # the batch after which the program dies


class Query(QueryProcess):
    """The program, which is started again and again on one checkpoint."""

    def __init__(self, session: TableSession, folder: Path, rng: random.Random) -> None:
        self.rng = rng
        command = session.command(write_query.__file__, folder)
        super().__init__(
            command, folder / "query.log", Location(str(folder / "checkpoint")), session.environment, folder
        )

    def dies(self) -> None:
        """It is started, and dies between a batch that is written and Spark's note of it."""
        last = self.committed() + self.rng.randint(1, 2)
        self.start(str(last))
        self.process.wait(PATIENCE)
        assert self.committed() == last - 1, self.output()[-3_000:]

    def is_killed(self) -> None:
        """It is started, and killed anywhere in a batch."""
        self.start(NEVER)
        self.await_batches(self.rng.randint(1, 2), self.rng.random())
        self.kill()


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
    query = Query(session, tmp_path, random.Random(seed))
    try:
        for harm in query.rng.sample([Query.dies, Query.is_killed] * 2, 4):
            harm(query)
        query.start(NEVER)
        awaited(lambda: query.is_running() and query.committed() == BATCHES - 1, "all files", every=1.0)
    finally:
        query.kill()
    session.run(write_query.__file__, tmp_path, "read")
    found = pq.read_table(tmp_path / "found")
    assert Counter(zip(found["id"].to_pylist(), found["day"].to_pylist(), strict=True)) == rows
