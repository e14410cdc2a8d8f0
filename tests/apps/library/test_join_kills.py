"""A join of two streams as a process of its own: whatever is killed while hot keys get places, each row comes once."""

import json
import random
import sys
import time
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from tests.apps.library import join_query
from tests.commands import with_spark
from tests.harness.query import KilledQuery
from tests.harness.streams import write_in_order
from tests.oracle.rows import written
from tests.waiting import awaited
from unskew.apps.checkpoint.plan_states import PlanStateLog

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(1800)]

START, LEFT, RIGHT = 1_700_000_000_000, 1_200, 150
BEFORE, AFTER, BATCHES = 2_000, 1_000, 40


def write_files(folder, batches, seed):
    """A file a batch and side, of 2 s. Half of the left rows have one key, which is another one every six batches."""
    sides = []
    for name, rows in (("left", LEFT), ("right", RIGHT)):
        (folder / name).mkdir()
        found = []
        for number in range(batches):
            rng = np.random.default_rng([seed, number, rows])
            hot = rng.random(rows) < (0.5 if name == "left" else 0.05)
            who = np.where(hot, "hot " + str(number // 6), rng.integers(0, 200, rows).astype(str)).tolist()
            ms = START + 2_000 * number + rng.integers(0, 2_000, rows)
            ids = np.arange(rows) + rows * number
            table = pa.table({"user": who, "at": pa.array(ms, pa.timestamp("ms", "UTC")), name: ids})
            write_in_order(folder / name, number, table)
            found += zip(who, ms.tolist(), table[name].to_pylist(), strict=True)
        sides.append(found)
    return sides


def join_rows(left, right):
    """The pairs of all rows, and the rows of each side that are alone, by their ids."""
    by_user = {}
    for user, at, own in right:
        by_user.setdefault(user, []).append((at, own))
    pairs = [
        (own, other)
        for user, at, own in left
        for moment, other in by_user.get(user, ())
        if at - BEFORE <= moment <= at + AFTER
    ]
    ours, theirs = ({pair[side] for pair in pairs} for side in (0, 1))
    return pairs, [own for *_, own in left if own not in ours], [own for *_, own in right if own not in theirs]


def is_idle(query, sources):
    """Whether all files have been taken, by both sources, and no batch has been done for a while.

    After a kill Spark may take two files in one batch, so that the number of batches isn't known.
    """
    done = query.committed()
    time.sleep(8)
    logs = [log.read_text().splitlines()[1:] for log in sources.glob("[01]/*") if not log.name.startswith(".")]
    taken = {json.loads(line)["path"] for lines in logs for line in lines}
    return len(taken) == 2 * BATCHES and done == query.committed()


@pytest.mark.takes(220)
@pytest.mark.nightly(group="kills")
def test_each_pair_and_each_lone_row_is_there_once(tmp_path, seed):
    left, right = write_files(tmp_path, BATCHES, seed)
    command = [sys.executable, "-P", join_query.__file__, str(tmp_path)]
    checkpoint = tmp_path / "checkpoint"
    query = KilledQuery(command, tmp_path, with_spark(), random.Random(seed))
    try:
        for harm in query.rng.sample([KilledQuery.loses_tasks, KilledQuery.is_killed] * 3, 6):
            harm(query)
        query.start(query.NEVER)
        awaited(lambda: query.is_running() and is_idle(query, checkpoint / "sources"), "all files", every=1.0)
    finally:
        query.kill()
    found = pa.concat_tables(table.select(["left", "right"]) for table in written(tmp_path / "out")).to_pylist()
    pairs, lonely_left, lonely_right = join_rows(left, right)
    assert Counter((row["left"], row["right"]) for row in found if None not in row.values()) == Counter(pairs)
    # The last rows' partners might still come.
    late = BATCHES - 5
    for name, size, alone in (("left", LEFT, lonely_left), ("right", RIGHT, lonely_right)):
        other = "right" if name == "left" else "left"
        published = Counter(row[name] for row in found if row[other] is None)
        assert not published - Counter(alone)
        missing = Counter(alone) - published
        assert all(own >= late * size for own in missing), name
        assert len(published) > 10
    newest = PlanStateLog(str(checkpoint)).newest()
    assert newest.active.number > 10, "a run in which no key gets places would prove nothing"
