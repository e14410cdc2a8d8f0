"""`unskew.spark_settings` and `unskew.check_session`: which settings, for which session, and what a session lacks."""

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.commands import printed_by
from tests.conftest import ONE_CONNECT
from tests.pages import PAGES
from unskew import check_session, spark_settings
from unskew.apps.library.spark_settings import COSTS
from unskew.errors import UsageError
from unskew.spark.compat import choose_disk_manager
from unskew.spark.setting_names import CO_PARTITION, DAEMON, MANAGER, PARTITIONS, PROVIDER

ALL = {"workers": 3, "small_rows": True}


class Conf:
    """Settings as a session has them; Spark knows no others."""

    def __init__(self, values):
        self._values = values

    def get(self, name):
        return self._values[name]


class Session:
    """What `check_session` asks of a session, without Spark. It is none of this machine."""

    def __init__(self, values, version=pyspark.__version__):
        self.conf, self.version = Conf(values), version
        self.sparkContext = type("Context", (), {"master": "spark://host:7077"})


def test_each_setting_is_in_the_docs_with_its_reason():
    page = PAGES["docs/operators.md"].read_text()
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| `spark.")]
    told = {row[1].strip().strip("`"): row[2].strip().strip("`") for row in rows}
    given = spark_settings(**ALL)
    assert told.keys() == given.keys()
    assert given.keys() | {"PYSPARK_PYTHON"} == COSTS.keys()
    for name in ("spark.python.daemon.module", "spark.sql.execution.arrow.maxBytesPerBatch"):
        assert told[name] == given[name]


def test_each_setting_has_its_condition():
    for given, lacks in (
        ({}, set()),
        ({"workers": None}, {PARTITIONS}),
        ({"workers": None, "cores": 2}, {PARTITIONS}),
        ({"checkpoint": "/a/path"}, set()),
        ({"checkpoint": "s3a://bucket/path"}, {MANAGER}),
        ({"checkpoint": "hdfs://host/path"}, {MANAGER}),
        ({"installed": False}, {DAEMON}),
        ({"small_rows": False}, {"spark.sql.execution.arrow.maxBytesPerBatch"}),
    ):
        assert spark_settings(**ALL).keys() - spark_settings(**(ALL | given)).keys() == lacks


def test_no_more_partitions_than_run_at_once():
    for workers, cores, partitions in ((3, None, "3"), (3, 2, "2"), (3, 4, "3")):
        assert spark_settings(workers=workers, cores=cores)[PARTITIONS] == partitions
        found = check_session(Session(spark_settings() | {PARTITIONS: "200"}), workers=workers, cores=cores)
        assert [each.wants for each in found] == [partitions]


def test_what_is_invalid_is_refused():
    with pytest.raises(UsageError, match="workers is 0; valid: 1 or more"):
        spark_settings(workers=0)
    with pytest.raises(UsageError, match="cores is 0; valid: 1 or more"):
        spark_settings(cores=0)
    with pytest.raises(UsageError, match="cores is 0; valid: 1 or more"):
        check_session(Session(spark_settings()), cores=0)
    with pytest.raises(UsageError, match="ftp"):
        spark_settings(checkpoint="ftp://host/path")


def test_a_session_with_the_settings_lacks_nothing():
    assert check_session(Session(spark_settings(**ALL)), **ALL) == []
    assert str(check_session(Session(spark_settings()), workers=None)) == "nothing is missing"
    vendors = spark_settings() | {PROVIDER: "com.vendor.RocksDBStore", MANAGER: "com.vendor.Files"}
    assert check_session(Session(vendors | {PARTITIONS: "2"}), workers=3) == []


def test_a_session_as_spark_comes_lacks_all():
    found = check_session(Session({PARTITIONS: "200", DAEMON: "<undefined>"}, "4.0.2"), **ALL)
    assert {each.setting: each.has for each in found} == dict.fromkeys(spark_settings(**ALL)) | {PARTITIONS: "200"}
    assert {each.setting: each.wants for each in found} == spark_settings(**ALL) | {
        MANAGER: choose_disk_manager("4.0.2")
    }
    assert [each.setting for each in found if not each.settable] == [DAEMON]
    lines = str(found).splitlines()
    assert len(lines) == 2 * len(found)
    assert "spark.python.daemon.module isn't set; better: unskew.apps.driver.python_daemon" in lines
    assert "spark.sql.shuffle.partitions is 200; better: 3 (by spark.conf.set)" in lines


def test_without_workers_only_sparks_default_has_too_many_partitions():
    for partitions, workers, lacks in (("200", None, ["200"]), ("64", None, []), ("64", 32, ["64"])):
        found = check_session(Session(spark_settings() | {PARTITIONS: partitions}), workers=workers)
        assert [each.has for each in found] == lacks


def test_a_session_is_mended(spark: SparkSession):
    """The tests' session is a topology's, so that it lacks little. What can be set is set in a session beside it."""
    other = spark.newSession()
    other.conf.set(PARTITIONS, "200")
    other.conf.unset(MANAGER)
    found = {each.setting: each for each in check_session(other, workers=2)}
    assert found.keys() - {"PYSPARK_PYTHON"} == {PARTITIONS, MANAGER, CO_PARTITION}
    for each in found.values():
        if each.settable:
            other.conf.set(each.setting, each.wants)
    assert {each.setting for each in check_session(other, workers=2)} <= {"PYSPARK_PYTHON"}
    assert other.range(3).repartition("id").count() == 3


SESSION = """
import sys
from pyspark.sql import SparkSession
from unskew import check_session, spark_settings
builder = SparkSession.builder.config('spark.ui.enabled', 'false')
if sys.argv[2] == 'fast':
    builder = builder.config(map=spark_settings(workers=2, cores=1))
builder = builder.remote('local[1]') if sys.argv[1] == 'connect' else builder.master('local[1]')
spark = builder.getOrCreate()
print('found', *(each.setting for each in check_session(spark, workers=2)))
assert spark.range(5).mapInArrow(lambda batches: batches, 'id long').count() == 5
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    "mode",
    [
        pytest.param("classic", marks=pytest.mark.ci),
        pytest.param("connect", marks=[ONE_CONNECT, pytest.mark.nightly(group="sparks")]),
    ],
)
def test_sessions_of_a_users_own(mode, tmp_path):
    """As Spark comes, and with the settings. A session of Spark Connect reads those of its server."""

    def found(kind: str) -> set[str]:
        [line] = [line for line in printed_by(SESSION, tmp_path, mode, kind) if line.startswith("found")]
        return set(line.split()[1:])

    variable = {"PYSPARK_PYTHON"} if mode == "classic" else set()
    wanted = spark_settings(workers=2).keys()
    assert found("plain") - variable == wanted
    assert found("fast") - variable == set()
