"""`keyed_map` by groupings with feedback: keys move with their states, and counts stay exact, also if it is killed."""

import random
import re
import sys
import threading
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.apps.stateful import driver
from tests.apps.stateful.driver import Tally
from tests.apps.stateful.in_time import in_time
from tests.commands import printed_by, with_spark
from tests.conftest import ONE_CONNECT
from tests.harness.query import QueryProcess
from tests.harness.streams import drain_to_files, draw_users, read_in_order, write_in_order
from tests.oracle.rows import written
from tests.tiers import nightly
from unskew import balanced_map, keyed_map, watch
from unskew.apps.checkpoint.location import Location
from unskew.apps.checkpoint.plan_states import PlanStateLog
from unskew.errors import EnvironmentFault, UsageError

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(driver)  # the tasks can't import the tests

ROWS, WORKERS = 600, 4
#: A plan in every batch in which workers' measured times differ: in most.
ALWAYS = {
    "MIXED": {"theta_max": 0.0, "window": 1},
    "CONSISTENT_HASH": {"threshold": 0.0, "rounds": 99, "method": "halving", "tokens": 64},
    "POSG": {"window": 64, "tolerance": 0.5, "merge_every": "1 batch"},
}


def files(folder, first, last):
    """Write files ``first`` to ``last`` of a stream, a batch each; their rows by user."""
    folder.mkdir(exist_ok=True)
    values = defaultdict(list)
    for number in range(first, last):
        rng = np.random.default_rng(number)
        users, given = draw_users(rng, ROWS, 0.3, 60), rng.integers(-9, 9, ROWS)
        write_in_order(folder, number, pa.table({"user": users, "value": given}))
        for user, value in zip(users, given.tolist(), strict=True):
            values[user].append(value)
    return values


@pytest.mark.parametrize(
    "grouping", ["MIXED", pytest.param("POSG", marks=pytest.mark.ci), *nightly("kills", "CONSISTENT_HASH")]
)
def test_keys_move_and_counts_are_exact(spark: SparkSession, tmp_path, grouping):
    """Two queries, one after the other, on one checkpoint: the second one has none of the first one's reports."""
    truth, checkpoint, out = defaultdict(list), str(tmp_path / "cp"), str(tmp_path / "out")
    moved = 0
    for first, last in ((0, 6), (6, 12)):
        for user, values in files(tmp_path / "in", first, last).items():
            truth[user] += values
        of = read_in_order(spark, tmp_path / "in"), "user", WORKERS, Tally(), grouping, checkpoint

        def attempt(_, of=of):
            results = keyed_map(*of, ttl="1 hour", observe="unskew", **ALWAYS[grouping])
            return watch(drain_to_files(results, out, checkpoint)).rows()

        batches = in_time(attempt)
        moved += sum(batch.moved for batch in batches)
        assert all(batch.grouping == grouping for batch in batches)
    state = PlanStateLog(checkpoint).newest()
    assert state is not None, "sources have asked for plans"
    most: dict[str, tuple[int, int]] = {}
    for row in spark.read.parquet(out).collect():
        most[row["user"]] = max(most.get(row["user"], (0, 0)), (row["n"], row["total"]))
    assert most == {user: (len(values), sum(values)) for user, values in truth.items()}
    if grouping == "POSG":
        assert moved == 0, "it splits keys"
        return
    assert state.active is not None
    assert moved > 0, "a query in which no keys move would prove nothing"
    changed = ALWAYS[grouping] | ({"beta": 1.0} if grouping == "MIXED" else {"tokens": 32})
    with pytest.raises(EnvironmentFault, match=rf"lie as a plan for \({grouping}"):
        keyed_map(*of, ttl="1 hour", **changed)


PROGRAM = """
import sys
from pyspark.sql import SparkSession
from unskew import keyed_map, spark_settings
from unskew.operators import Statistics

folder = sys.argv[1]
conf = {"spark.ui.enabled": "false", **spark_settings(workers=4)}
spark = SparkSession.builder.master("local[2]").config(map=conf).getOrCreate()
rows = spark.readStream.schema("user string, value long").option("maxFilesPerTrigger", 1).parquet(folder + "/in")
found = keyed_map(
    rows, "user", 4, Statistics("value"), "MIXED", folder + "/cp", ttl="1 hour", theta_max=0.0, window=1
)
writer = found.select("user", "count", "sum").writeStream.format("parquet").option("checkpointLocation", folder + "/cp")
writer.trigger(availableNow=True).start(folder + "/out").awaitTermination()
"""


@pytest.mark.slow
@pytest.mark.nightly(group="kills")
@pytest.mark.takes(180)
@pytest.mark.parametrize("kills", [4])
def test_whatever_batch_it_is_killed_in(tmp_path, kills, seed):
    """All of it at once: the driver, Spark, and its Python workers."""
    truth = files(tmp_path / "in", 0, 8 * kills + 4)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    checkpoint = Location(str(tmp_path / "cp"))
    query = QueryProcess([sys.executable, program, tmp_path], tmp_path / "log", checkpoint, with_spark())
    rng = random.Random(seed)
    try:
        for _ in range(kills):
            query.start()
            query.await_batches(3, longer=rng.random())  # anywhere in a batch
            query.kill()
        query.start()
        query.await_end()
    finally:
        query.kill()
    found = pa.concat_tables(written(tmp_path / "out"))
    most: dict[str, tuple[int, float]] = {}
    for user, count, total in zip(*(found[name].to_pylist() for name in ("user", "count", "sum")), strict=True):
        most[user] = max(most.get(user, (0, 0.0)), (count, total))
    assert most == {user: (len(values), float(sum(values))) for user, values in truth.items()}
    state = PlanStateLog(str(tmp_path / "cp")).newest()
    assert state.active.number > 2, "a query in which no keys move would prove nothing"


CONNECT = """
import sys
from pyspark.sql import SparkSession
from unskew import keyed_map, spark_settings
from unskew.operators import Statistics

conf = {"spark.ui.enabled": "false", **spark_settings(workers=4)}
spark = SparkSession.builder.config(map=conf).remote("local[1]").getOrCreate()
rows = spark.readStream.schema("user string, value long").parquet(sys.argv[1] + "/in")
try:
    keyed_map(rows, "user", 4, Statistics("value"), "MIXED", sys.argv[1] + "/cp", ttl="1 hour")
except ValueError as error:
    print(error)
spark.stop()
"""


@pytest.mark.nightly(group="sparks")
@pytest.mark.slow
@ONE_CONNECT
def test_through_spark_connect_it_is_refused(tmp_path):
    """Before anything is written."""
    files(tmp_path / "in", 0, 1)
    line = r"MIXED needs feedback from the workers, which has no way .*Spark Connect"
    assert any(re.match(line, said) for said in printed_by(CONNECT, tmp_path, tmp_path))
    assert not (tmp_path / "cp").exists()


@pytest.mark.nightly(group="kills")
def test_a_call_that_is_refused_leaves_no_thread(spark: SparkSession, tmp_path):
    rows = spark.readStream.schema("user string, value long").parquet(str(tmp_path))
    before, checkpoint = threading.active_count(), str(tmp_path / "cp")
    with pytest.raises(UsageError, match="usr"):
        keyed_map(rows, "user", 4, Tally(), "MIXED", checkpoint, ttl="1 hour", source="usr")
    for given, error in (({"source": "usr"}, UsageError), ({"schema": "user strin"}, PySparkException)):
        arguments = {"schema": "user string"} | given
        with pytest.raises(error):
            balanced_map(rows, "user", 4, iter, grouping="MIXED", checkpoint=checkpoint, **arguments)
    assert threading.active_count() == before
