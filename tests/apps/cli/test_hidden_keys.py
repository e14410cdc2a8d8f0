"""A run's displays and logs with `--keys none`, down to Spark's own log."""

from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from tests.apps.conftest import countries, publish
from tests.commands import UNSKEW, with_spark
from unskew.directories import data_directory
from unskew.kafka.connection import Connection

KEY = "Mary-Smith"
WORK = "def picky(tuples):\n    raise KeyError(tuples.column('key')[0].as_py())\n"


@pytest.mark.nightly(group="keyed")
@pytest.mark.spark
@pytest.mark.parametrize("how", ["plain", "none"])
def test_logs_of_a_work_that_fails(connection: Connection, topic: str, tmp_path: Path, how: str) -> None:
    publish(connection, topic, 2, countries([KEY] * 20))
    (tmp_path / "fails.py").write_text(WORK)
    where = ["--bootstrap-servers", connection.bootstrap_servers, "--checkpoint", tmp_path / "checkpoint"]
    run = ["LOCAL", "COUNTRY_SKEW_R80", "KEY", topic, "2", "2", "x0", "--until", "drained", "--work", "fails:picky"]
    command = [*UNSKEW, "topology", *run, "--keys", how, *map(str, where)]
    with Popen(command, cwd=tmp_path, env=with_spark(PYTHONPATH=str(tmp_path)), stdout=PIPE, stderr=PIPE) as program:
        printed = b"".join(program.communicate(timeout=300)).decode()
    assert program.returncode == 1
    assert "the work failed on key" in printed
    logged = (data_directory() / "logs" / f"spark-{program.pid}.log").read_text(encoding="utf-8")
    assert ("KeyError" in printed, KEY in printed, KEY in logged) == (True, how == "plain", how == "plain")
