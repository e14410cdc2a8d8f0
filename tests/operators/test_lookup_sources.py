"""Ready lookups: PostgreSQL as Debian has it, which dies and comes back, and files. (Parquet and Delta in a query:
``tests/apps/library/test_balanced_lookup.py``.)
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.programs import lacking
from unskew.apps.operators.lookup import Lookup
from unskew.lookups import PostgresLookup, TableLookup
from unskew.operators import Now

_ROOT = os.geteuid() == 0


class Postgres:
    """A PostgreSQL server at a socket in a directory of its own. As root it runs as Debian's user ``postgres``."""

    def __init__(self, programs: Path, directory: Path) -> None:
        self._programs, self._directory = programs, directory
        self.conninfo = f"host={directory} dbname=postgres user=postgres"
        self._run("initdb", "--username=postgres", "--auth=trust", "--no-sync")

    def start(self) -> None:
        """Start it; its databases are those of before."""
        options = f"-c listen_addresses='' -c unix_socket_directories={self._directory} -c fsync=off"
        self._run("pg_ctl", "start", "--wait", f"--log={self._directory}/log", f"--options={options}")

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._run("pg_ctl", "stop", "--mode=immediate", check=False)

    def _run(self, program: str, *arguments: str, check: bool = True) -> None:
        command = [str(self._programs / program), f"--pgdata={self._directory}/data", *arguments]
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if _ROOT else []
        subprocess.run([*user, *command], check=check, stdout=subprocess.DEVNULL, timeout=60, cwd="/")


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not programs:
        lacking("there is no PostgreSQL; Debian's package is postgresql")
    directory = Path(tempfile.mkdtemp(prefix="pg"))
    if _ROOT:
        shutil.chown(directory, "postgres", "postgres")
    server = Postgres(programs[-1].parent, directory)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.mark.nightly(group="servers")
@pytest.mark.takes(20)
def test_a_database_that_comes_back_is_asked_again(postgres):
    with psycopg.connect(postgres.conninfo) as database:
        database.execute("CREATE TABLE users (id text PRIMARY KEY, born date, spent numeric(9, 2), tags int[])")
        rows = [("a", date(2001, 2, 3), Decimal("1.50"), [1, 2]), ("o'hara", None, None, None)]
        database.cursor().executemany("INSERT INTO users VALUES (%s, %s, %s, %s)", rows)
    query = "SELECT id AS key, born, spent, tags FROM users WHERE id = ANY(%s)"
    found = pa.schema({"born": pa.date32(), "spent": pa.decimal128(9, 2), "tags": pa.list_(pa.int64())}.items())
    work = Lookup(PostgresLookup(postgres.conninfo, query), pa.schema([]), found, 1000, 1000)
    states = pa.RecordBatch.from_pylist([{}] * 3, work.state)
    tuples = pa.record_batch({"slot": pa.array([2, 1, 0], pa.int32()), "key": ["nobody", "o'hara", "a"]})
    wanted = [("nobody", None, None, None), rows[1], rows[0]]
    for second in range(3):
        results, states = work.update(tuples, states, Now(2000 * second, 0))
        assert results is not None
        answers = [tuple(row.values())[1:] for row in results.to_pylist()]
        assert answers == [row[1:] for row in wanted]
        assert states.column("matched").to_pylist() == [True, True, False]
        postgres.kill()  # the process keeps a connection, which is broken now
        postgres.start()


def test_a_table_has_no_such_column(tmp_path):
    pq.write_table(pa.table({"id": [1], "name": ["a"]}), tmp_path / "users.parquet")
    path = str(tmp_path / "users.parquet")
    assert TableLookup(path, "id", ["name"])(pa.array([1, 2], pa.int32())).to_pylist() == [{"key": 1, "name": "a"}]
    with pytest.raises(ValueError, match="no column 'born'; valid: id, name"):
        TableLookup(path, "id", ["born"])(pa.array([1]))
