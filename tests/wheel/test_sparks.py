"""The library on other versions of Spark: the same queries, the same truth.

    make nightly GROUP=sparks

Each version has environments of its own, in which the wheel is installed as a user would.
"""

import json
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.apps.sessions_example import Example, require_each_session_once, send
from tests.harness.streams import write_in_order
from tests.harness.topology import Topology
from tests.harness.topology import check as require_counts
from tests.harness.topology import published as send_countries
from tests.oracle.rows import written
from tests.sessions import sessions
from tests.wheel.environments import ROOT
from tests.wheel.installed import MODES, Installed, error_of, own
from tests.wheel.query import CLASSIC, NAMES, STATIC
from unskew.deploy.installation.jars import fetch_connector
from unskew.errors import EnvironmentFault
from unskew.kafka.connection import Connection

pytestmark = [pytest.mark.slow, pytest.mark.ci]
NIGHTLY = pytest.mark.nightly(group="sparks")
#: Of each minor version that `balance` and its kin are for, the newest that has a thin client, if any has.
VERSIONS = ["4.0.4", *(pytest.param(each, marks=NIGHTLY) for each in ("4.1.3", "4.2.0")), "4.3.0"]
WORKERS, FILES, ROWS = 4, 6, 300
GAP_MS = 2_000
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
#: The workers of the hot key, which has three of five rows, by grouping: so few at least, so many at most.
HOT = {"KEY": (1, 1), "PARTIAL_KEY": (2, 2), "BOUNDED_LOAD": (3, WORKERS), "PLANNED": (3, WORKERS)}

OF = {
    "static": ["BOUNDED_LOAD", "PLANNED"],
    "rows": ["KEY", "PARTIAL_KEY", "PLANNED"],
    "map": ["BOUNDED_LOAD"],
    "ids": ["KEY", "D_CHOICES", "MIXED"],
    "priced": ["BOUNDED_LOAD", "PLANNED"],
    "sessions": ["KEY", "D_CHOICES"],
    "named": ["PLANNED"],
    "paired": ["inner", "left"],
    "joined": ["left"],
    "table": ["parquet"],
    "names": [*NAMES, *CLASSIC],
}
#: The rows that a query must write for a stream's rows, by kind, as SQL.
_ROWS = "SELECT key, id FROM stream"
_NAMED = "SELECT key, id, if(key = 'u9', NULL, 'name of ' || key) AS name FROM stream"
TRUE = {
    "map": _ROWS,
    "ids": "SELECT DISTINCT key, id FROM stream",
    "priced": """SELECT DISTINCT nullif(key, 'u3') AS "user", (id % 5)::DECIMAL(9, 2) AS price, id FROM stream""",
    "named": _NAMED,
    "joined": _NAMED,
    "table": _ROWS,
    "paired": """SELECT stream.key, stream.id, other.id AS id_right FROM stream {how} JOIN stream other
        ON stream.key = other.key AND other.id % 7 = 0 AND abs(epoch_us(stream.at) - epoch_us(other.at)) <= 1_000_000
        WHERE stream.key != 'end'""",
}
#: KIND:GROUPING (``query.py``)
QUERIES = [f"{kind}:{grouping}" for kind, groupings in OF.items() for grouping in groupings]
KILLED = ["rows:PARTIAL_KEY", "ids:PARTIAL_KEY", "ids:MIXED", "sessions:D_CHOICES"]


def refusal(spark: Installed, mode: str, name: str) -> str:
    """Why this Spark can't do it: Connect has no driver of ours, and that of 4.0 no Python states. Empty: it can."""
    if mode == "classic":
        return ""
    if name.endswith("MIXED") or name.startswith("paired"):
        return "needs feedback from the workers, which has no way to the driver through Spark Connect"
    states = spark.version.startswith("4.0.") and name.startswith(("ids", "sessions", "named"))
    return "keeps no states of Python through Spark Connect" if states else ""


@pytest.fixture(scope="module", params=VERSIONS)
def spark(request, wheel) -> Installed:
    return Installed.of(request.param, wheel)


@pytest.fixture(
    scope="module", params=[pytest.param(each, marks=[] if each == "classic" else NIGHTLY) for each in MODES]
)
def mode(request, spark) -> str:
    if request.param == "client" and spark.lacks_client:
        pytest.skip(f"there is no thin client of Spark {spark.version}: {spark.lacks_client}")
    return request.param


@pytest.fixture(scope="module")
def drained(spark, mode, tmp_path_factory) -> Path:
    """The folder of QUERIES, which have ended."""
    folder = tmp_path_factory.mktemp("drained")
    _written(folder / "in")
    with spark.queries(mode, folder, "apart", QUERIES) as queries:
        queries.wait()
    return folder


def _written(folder: Path) -> pa.Table:
    """The files of a stream, and its rows: three of five have one key. Each id comes twice. Then the clock goes on."""
    rng = np.random.default_rng(7)
    tables = []
    folder.mkdir()
    for number in range(FILES + 2):
        ids = np.arange(ROWS * number, ROWS * (number + 1)) // 2
        keys = [f"u{key}" for key in np.where(ids % 5 < 3, 0, ids % 40)]
        times = [BEGIN + timedelta(seconds=10 * number, milliseconds=int(ms)) for ms in rng.integers(0, 10_000, ROWS)]
        if number >= FILES:
            keys, ids, times = ["end"], ids[:1], [BEGIN + timedelta(days=number)]
        table = pa.table({"key": keys, "id": ids, "at": pa.array(times, pa.timestamp("us", "UTC"))})
        write_in_order(folder, number, table)
        tables.append(table)
    return pa.concat_tables(tables)


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


def published(found: pa.Table) -> Counter[tuple[str, int, int, int]]:
    columns = (found[name].to_pylist() for name in ("key", "start", "last", "count"))
    return Counter(each for each in zip(*columns, strict=True) if each[0] != "end")


def require(name: str, folder: Path) -> None:
    """Require that a query has failed nowhere, and has written what it must for the stream of FOLDER/in."""
    assert not error_of(folder, name), error_of(folder, name)
    kind, grouping = name.split(":")
    stream = pa.concat_tables(pq.read_table(file) for file in sorted((folder / "in").glob("*.parquet")))
    out = own(folder, name) / "out"
    found = pq.read_table(out) if kind in STATIC else pa.concat_tables(written(out))
    if kind in ("static", "rows"):
        require_placed(found, stream, grouping)
    elif kind == "sessions":
        rows = zip(stream["key"].to_pylist(), stream["at"].to_pylist(), strict=True)
        true = sessions(((key, round(1000 * at.timestamp())) for key, at in rows if key != "end"), GAP_MS)
        assert published(found) == Counter(true)
    else:
        true = duckdb.sql(TRUE[kind].format(how=grouping))
        rows = zip(*(found[column].to_pylist() for column in true.columns), strict=True)
        assert Counter(rows) == Counter(true.fetchall())


@pytest.mark.parametrize("name", QUERIES)
def test_drained(spark, mode, drained, name):
    kind, _, what = name.partition(":")
    if kind == "names":
        assert not error_of(drained, name) or (what in CLASSIC and mode != "classic"), error_of(drained, name)
        return
    if refused := refusal(spark, mode, name):
        assert refused in error_of(drained, name)
        pytest.skip(refused)
    require(name, drained)
    if kind == "rows":
        watched = json.loads((own(drained, name) / "loads.json").read_text())
        found = pa.concat_tables(written(own(drained, name) / "out"))
        assert watched == np.bincount(found["worker"].to_numpy(), minlength=WORKERS).tolist()
    elif kind in ("map", "ids"):
        watched = json.loads((own(drained, name) / "loads.json").read_text())
        assert sum(watched) == sum(pq.read_table(file).num_rows for file in (drained / "in").glob("*.parquet"))
    if kind in ("rows", "map", "ids"):
        assert "unskew_worker_share_ratio{" in (own(drained, name) / "metrics").read_text()


@pytest.fixture
def connector(spark) -> list[Path]:
    """The Kafka connector of this version."""
    try:
        return fetch_connector(spark.version)
    except EnvironmentFault as fault:
        pytest.skip(f"the Kafka connector of Spark {spark.version} can't be had: {fault}")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", ["classic"], indirect=True)
def test_topology(spark, mode, connector, wheel, kafka, topic, tmp_path):
    """`unskew topology` takes this Spark's connector, is killed, and counts each tuple once."""
    connection = Connection(kafka.bootstrap_servers)
    truth = send_countries(connection, topic)
    unskew = spark.topology(wheel)
    environment = spark.environment() | {"PYSPARK_PYTHON": str(unskew.with_name("python"))}
    environment |= {"UNSKEW_HOME": str(ROOT / ".unskew")}  # which has the archives
    topology = Topology(connection, topic, tmp_path, "PLANNED", environment=environment, command=[str(unskew)])
    try:
        topology.await_batches(1)
        topology.kill()
        topology.start()
        topology.await_end()
    finally:
        topology.kill()
    require_counts(connection, topic, "pl", truth)


@NIGHTLY
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", ["classic"], indirect=True)
def test_example(spark, mode, connector, kafka, topic, tmp_path, seed):
    """examples/sessions.py, unchanged, with this Spark's own connector: it is killed, and writes each session once."""
    connection = Connection(kafka.bootstrap_servers)
    send(connection, topic)
    example = Example(spark.submit, connector, spark.environment(), connection.bootstrap_servers, topic, tmp_path)
    try:
        require_each_session_once(example, connection, topic, tmp_path, seed)
    finally:
        example.kill()


@NIGHTLY
def test_kills(spark, mode, tmp_path):
    """The Python workers are killed, then the driver, and the queries start again from their checkpoints."""
    _written(tmp_path / "in")
    names = [name for name in KILLED if not refusal(spark, mode, name)]
    with spark.queries(mode, tmp_path, "together", names) as queries:
        for name in names:
            queries.go_on(name, 2)
        assert queries.kill_python_workers()
        for name in names:
            queries.go_on(name, 4)
        queries.kill()
    with spark.queries(mode, tmp_path, "together", names) as queries:
        queries.wait()
    for name in names:
        require(name, tmp_path)
