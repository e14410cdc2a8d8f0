"""The topology started from Python: `unskew.Topology`."""

import threading
from collections import Counter

import pytest

from tests.apps.conftest import by_key, countries, final_counts, publish, skewed
from tests.waiting import PATIENCE
from unskew import Topology
from unskew.errors import UsageError


@pytest.fixture
def topology(topic):
    return Topology(
        "COUNTRY_SKEW_R80", "PLANNED", topic=topic, sources=2, workers=4, window=1.0, trigger=0.2, consumer_group=""
    )


def test_a_topology_in_a_session_of_ones_own(topology, topic, connection, spark, tmp_path):
    """It counts what is there, goes on until it is asked to drain, and leaves the session as it was."""
    assert spark.range(1).count() == 1  # Spark's first query completes its settings
    before = dict(spark.sparkContext.getConf().getAll()), spark.conf.get("spark.sql.shuffle.partitions")
    keys = skewed(3_000)
    publish(connection, topic, 2, countries(keys[:1_000]))
    taken = threading.Event()
    given = {"checkpoint": str(tmp_path / "checkpoint"), "spark": spark}
    with topology.start(
        connection.bootstrap_servers, listeners=[lambda report: report.loads.any() and taken.set()], **given
    ) as run:
        assert taken.wait(PATIENCE)
        assert not run.wait(0.1)
        publish(connection, topic, 2, countries(keys[1_000:]))
        assert run.wait(PATIENCE, drained=True)
        assert run.outcome.drained
        assert by_key(final_counts(connection, run.topics["aggregator"])) == Counter(keys)
        balance = run.balance()
    assert (balance.tuples, sum(balance.loads)) == (3_000, 3_000)
    assert f"3,000 tuples at {balance.tuples_per_second:,.0f}/s, STD_DEV {balance.std_dev:.2f}" in str(balance)
    assert balance.std_dev < 5
    assert spark.range(3).count() == 3, "the session goes on"
    assert (dict(spark.sparkContext.getConf().getAll()), spark.conf.get("spark.sql.shuffle.partitions")) == before
    with topology.start(connection.bootstrap_servers, **given) as run:
        assert run.wait(PATIENCE, drained=True), "nothing is left to do"
    assert by_key(final_counts(connection, run.topics["aggregator"])) == Counter(keys)


@pytest.mark.ci
def test_a_topology_that_is_stopped_goes_on_later(topology, topic, connection, spark, tmp_path):
    keys = skewed(2_000)
    publish(connection, topic, 2, countries(keys))
    given = {"checkpoint": str(tmp_path / "checkpoint"), "spark": spark}
    seen = threading.Event()
    with topology.start(connection.bootstrap_servers, listeners=[lambda _: seen.set()], **given) as run:
        assert seen.wait(PATIENCE)
    assert run.wait(0)
    assert not run.outcome.drained
    with topology.start(connection.bootstrap_servers, **given) as run:
        assert run.wait(PATIENCE, drained=True)
    assert by_key(final_counts(connection, run.topics["aggregator"])) == Counter(keys)


def test_the_errors_of_a_run_are_raised(topology, topic, connection, spark, tmp_path):
    publish(connection, topic, 3, [b"{}"] * 3)
    with pytest.raises(UsageError, match="has 3 partitions"):
        topology.start(connection.bootstrap_servers, checkpoint=str(tmp_path / "one"), spark=spark)
    wrong = Topology("COUNTRY_SKEW_R80", "KEY", topic=topic, sources=3, workers=4, starting_offsets="{}")
    with (
        pytest.raises(Exception, match="startingOffsets"),
        wrong.start(connection.bootstrap_servers, checkpoint=str(tmp_path / "two"), spark=spark) as run,
    ):
        run.wait(PATIENCE)
    own = {"source_type": "COLUMN", "grouping": "KEY", "sources": 3, "workers": 4}
    with pytest.raises(
        UsageError, match=f"there is no topic {topic[:-1]} at .*: --create-topic makes it; did you mean"
    ):
        Topology(**own, key_field="user", topic=topic[:-1]).start(connection.bootstrap_servers, spark=spark)
    publish(connection, topic, 3, [b'{"user": {"id": 1}}', b"no object"])
    with pytest.raises(UsageError, match=r"none of the 1 newest objects in .* has it; did you mean user\.id"):
        Topology(**own, key_field="usr.id", topic=topic).start(connection.bootstrap_servers, spark=spark)
    with pytest.raises(UsageError, match="this process has a Spark session: start the topology in it"):
        topology.start(connection.bootstrap_servers)
    with pytest.raises(UsageError, match="has no setting 'windows'; valid: source_type"):
        Topology("COUNTRY_SKEW_R80", "KEY", topic=topic, sources=3, workers=4, windows=3)
