"""One planner for the sources of a query: the topology, `balance`, `balanced_map` and `keyed_map`, through Spark."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from pyspark.sql import functions as F

from tests.apps.conftest import by_key, countries, final_counts, publish, records
from tests.waiting import PATIENCE
from unskew import balance
from unskew.apps.driver.plans.planner import FOLDER

WORKERS = 20


def cap(tuples: int) -> int:
    """PLANNED's guarantee, with its default slack."""
    return max(-(-tuples // WORKERS), int(1.05 * tuples / WORKERS))


@pytest.mark.ci
@pytest.mark.parametrize("sources", [2, 8])
def test_the_sources_of_a_topology_share_a_plan(sources, settings, drain, connection, topic, tmp_path):
    """Each batch is within its caps, and keys are split as one source would split them; twice eight are more tasks
    than run at once.
    """
    rng = np.random.default_rng(sources)
    keys = [f"Country {key}" for key in rng.integers(0, 200, 20_000)]
    run = settings("PLANNED", sources=sources, workers=WORKERS, max_tuples=4_000, window=2.0)
    publish(connection, topic, sources, countries(keys))
    _, reports = drain(run)
    batches = [report for report in reports if report.loads.any()]
    assert len(batches) >= 5
    assert [report.loads.max() for report in batches] == [
        min(report.loads.max(), cap(int(report.loads.sum()))) for report in batches
    ]
    plans = [report.plan for report in batches]
    assert all(1 <= plan.waves <= sources and plan.waited > 0 for plan in plans)
    assert plans[0].added > 0
    results = f"{run.name}-aggregator"
    assert by_key(final_counts(connection, results)) == Counter(keys)
    places = [record["fields"]["workers"] for _, record in records(connection, results)]
    assert np.mean(places) <= 1.5, "eight sources that know nothing of each other have twice as many workers a key"
    assert not (tmp_path / "checkpoint-PLANNED" / "unskew" / "sources").exists(), "sources have no state of their own"
    assert [*(tmp_path / "checkpoint-PLANNED").joinpath(*FOLDER).iterdir()]


def test_a_stream_of_ones_own_shares_a_plan(spark, tmp_path):
    """Of a file stream with four tasks a batch, each batch is within its caps; a query that starts again goes on."""
    rng = np.random.default_rng(0)
    folder, there = tmp_path / "in", defaultdict(list)
    folder.mkdir()
    keys = [f"u{key}" for key in rng.zipf(1.3, 12_000)]

    def add(first: int, last: int) -> None:
        for i in range(first, last):
            (folder / f"{i:03}.txt").write_text("\n".join(keys[1_000 * i : 1_000 * (i + 1)]))

    def drain() -> None:
        rows = spark.readStream.option("maxFilesPerTrigger", 4).text(str(folder)).withColumnRenamed("value", "user")
        placed = balance(rows, "user", WORKERS, "PLANNED", str(tmp_path / "checkpoint"))

        def keep(df, batch: int) -> None:
            there[batch] = [tuple(row) for row in df.select("user", "worker", F.spark_partition_id()).collect()]

        query = (
            placed.writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(int(PATIENCE))

    for first, last in ((0, 8), (8, 12)):
        add(first, last)
        drain()
    assert Counter(user for rows in there.values() for user, *_ in rows) == Counter(keys)
    assert len(there) == 3
    for rows in there.values():
        assert all(worker == partition for _, worker, partition in rows)
        loads = Counter(worker for _, worker, _ in rows)
        assert max(loads.values()) <= cap(len(rows))
    places = {(user, worker) for rows in there.values() for user, worker, _ in rows}
    assert len(places) / len(set(keys)) < 1.1
