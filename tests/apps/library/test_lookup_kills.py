"""A lookup as a process of its own: whatever is killed, each row comes once, with its name."""

import random
import sys
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from tests.apps.library import lookup_query
from tests.commands import with_spark
from tests.harness.query import KilledQuery
from tests.harness.streams import write_in_order
from tests.oracle.rows import written
from tests.waiting import awaited

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(900)]

FILES, ROWS = 40, 500


@pytest.mark.takes(90)
@pytest.mark.nightly(group="kills")
def test_each_row_is_there_once_with_its_name(tmp_path, seed):
    expected = Counter()
    (tmp_path / "in").mkdir()
    for number in range(FILES):
        who = np.where(np.arange(ROWS) % 2 == 0, 0, np.random.default_rng([seed, number]).integers(0, 900, ROWS))
        users = [f"u{each}" for each in who]
        write_in_order(tmp_path / "in", number, pa.table({"user": users, "id": np.arange(ROWS) + ROWS * number}))
        expected.update(
            (ROWS * number + row, None if user.endswith("7") else f"name of {user}") for row, user in enumerate(users)
        )
    command = [sys.executable, "-P", lookup_query.__file__, str(tmp_path)]
    query = KilledQuery(command, tmp_path, with_spark(), random.Random(seed))

    def find_rows() -> Counter:
        return Counter((row["id"], row["name"]) for table in written(tmp_path / "out") for row in table.to_pylist())

    try:
        for harm in query.rng.sample([KilledQuery.loses_tasks, KilledQuery.is_killed] * 2, 4):
            harm(query)
        query.start(query.NEVER)
        awaited(lambda: query.is_running() and find_rows().total() >= expected.total(), "all rows", every=1.0)
        query.await_batches(0, 3.0)
    finally:
        query.kill()
    assert find_rows() == expected
