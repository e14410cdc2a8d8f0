"""What tests of all areas share: a broker for each test process, topic names that nobody else has, and their order."""

import os
import re
import uuid
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from unskew.deploy.home import home
from unskew.deploy.installation.exclusive import exclusive
from unskew.deploy.servers.broker import Broker
from unskew.grouping import compile_all
from unskew.grouping.compiled import cache_home

pytest_plugins = ["tests.servers"]

# No deadlines: a first call may compile, and the machine may be busy.
settings.register_profile("unskew", deadline=None)
settings.register_profile("fast", deadline=None, max_examples=20)
settings.load_profile("unskew")

# Spark's JVMs live for minutes here: code that is soon compiled beats code that is fast. All of it has room: by default
# a JVM with one compiler has so little that it throws away what it will compile again.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"
# And none is generated where a JVM dies after a few batches: that is a fifth of the CPU up to the end of the first.
_INTERPRETED = "-Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
#: For sessions of tests that last: Spark's own defaults.
GENERATED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
os.environ.setdefault("SPARK_SUBMIT_OPTS", f"{SHORT_LIVED} {_INTERPRETED}")
os.environ.setdefault("SPARK_DAEMON_JAVA_OPTS", SHORT_LIVED)
# What is installed elsewhere, or shipped to executors, finds the kernels that are compiled here.
os.environ.setdefault("NUMBA_CACHE_DIR", cache_home())

# The files whose tests use the session that the tests of a process share.
_SPARK = (
    "tests/apps/feedback/test_schemes.py",
    "tests/apps/test_avro.py",
    "tests/apps/test_balance.py",
    "tests/apps/test_closing.py",
    "tests/apps/test_column.py",
    "tests/apps/test_datasets.py",
    "tests/apps/test_fields.py",
    "tests/apps/test_portions.py",
    "tests/apps/test_python_workers.py",
    "tests/apps/test_splitter.py",
    "tests/apps/test_topology.py",
    "tests/dashboards/",
    "tests/deploy/test_secured.py",
    "tests/monitoring/test_influx_fails.py",
    "tests/monitoring/test_run_metrics.py",
)
# As many again with another one, beside them.
_MORE_SPARK = tuple(
    f"tests/apps/{what}.py"
    for what in (
        "keyed/test_example", "keyed/test_faults", "keyed/test_keyed_map", "keyed/test_keyed_topology",
        "keyed/test_late_python", "keyed/test_moving_topology", "test_clock", "test_data_loss", "test_executors_lost",
        "test_future", "test_growth", "test_idle", "test_listeners", "test_many_windows", "test_replay",
        "test_rescaling", "test_upgrades", "test_work_raises",
    )
)  # fmt: skip
_FILES = 15  # that the end of a run names
# The groups that take longest, longest first.
_LONGEST = (
    "stores",
    "spark",
    "more spark",
    "tests/apps/keyed/test_keyed_kills.py",
    "tests/apps/test_kills.py",
    "grouping",
    "tests/wheel/test_wheel.py",
    "tests/wheel/test_demo.py",
    "tests/producers/test_resume.py",
    "tests/apps/test_compare.py",
)
# Whether InfluxDB is still to come: the processes of a run must agree, so it is asked once, before there are any.
_NO_INFLUXDB = "UNSKEW_TESTS_WITHOUT_INFLUXDB"


def group_of(nodeid: str) -> str:
    """The group that a test belongs to: its file, or all files that share Spark, servers or compiled kernels."""
    if nodeid.startswith(_SPARK):
        return "spark"
    if nodeid.startswith(_MORE_SPARK):
        return "more spark"
    if nodeid.startswith(("tests/apps/stores/", "tests/apps/test_cluster.py")):
        return "stores"
    return "grouping" if nodeid.startswith("tests/grouping/") else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Run a group's tests in one process, the groups in the order of `pytest_collection_modifyitems`."""
    config.option.loadscopereorder = False
    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = group_of
    return scheduler


def pytest_configure() -> None:
    """Ask what the order of the tests depends on."""
    from tests.servers import lacking  # here: pytest wants to be the first to import its plugins

    os.environ.setdefault(_NO_INFLUXDB, "yes" if lacking() else "")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest groups come first; what needs InfluxDB comes last where that is built meanwhile.

    One session of Spark is fast, a second one isn't.
    """
    for item in items:
        if item.nodeid.startswith(_MORE_SPARK) and item.get_closest_marker("spark"):
            item.add_marker("slow")
    groups: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        groups[group_of(item.nodeid)].append(item)
    for members in groups.values():
        members.sort(key=_waits_for_influxdb)
    items[:] = [item for name in sorted(groups, key=lambda name: _rank(name, groups[name])) for item in groups[name]]


def _rank(name: str, members: list[pytest.Item]) -> tuple[bool, int]:
    a_file = "/" in name  # in a group of several, those that wait are the last
    waits = a_file and any(map(_waits_for_influxdb, members))
    return waits, _LONGEST.index(name) if name in _LONGEST else len(_LONGEST)


def _waits_for_influxdb(item: pytest.Item) -> bool:
    from tests.servers import needs_influxdb

    needs = needs_influxdb(item) or item.get_closest_marker("influxdb") is not None
    return needs and bool(os.environ[_NO_INFLUXDB])


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say which files took longest, all their tests together, with what they share."""
    spent: dict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            spent[getattr(report, "nodeid", "").partition("::")[0]] += getattr(report, "duration", 0.0)
    longest = sorted(spent.items(), key=lambda each: -each[1])[:_FILES]
    terminalreporter.section(f"slowest {len(longest)} files, of {sum(spent.values()):.0f}s in all")
    for file, seconds in longest:
        terminalreporter.write_line(f"{seconds:.0f}s {file}")


@pytest.fixture(scope="session")
def kernels() -> None:
    """All kernels are compiled: by one process for all of them, as it takes a minute when nothing is cached."""
    home().mkdir(parents=True, exist_ok=True)
    with exclusive(home() / "kernels.lock"):
        compile_all()


@pytest.fixture(autouse=True)
def _compiled(request: pytest.FixtureRequest) -> None:
    """No process that a test starts compiles what others are compiling."""
    if request.node.get_closest_marker("spark"):
        request.getfixturevalue("kernels")


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running broker, shared by this process' tests: use `topic`, and start your own `Broker` to stop or kill it."""
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name of this test's own; the topic doesn't exist yet."""
    return f"{re.sub(r'[^A-Za-z0-9_-]', '-', request.node.name)[:60]}-{uuid.uuid4().hex[:8]}"
