"""What is left on the disk: by processes that are killed, by a full disk, by logs that nobody reads."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.topology import launch, truth  # noqa: F401  fixtures
from tests.waiting import awaited
from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.apps.checkpoint.folders import LocalFolder, list_numbers, name_partial
from unskew.apps.checkpoint.versions import Versions
from unskew.apps.driver import session

_FULL = """
import resource, signal, sys
from unskew.apps.checkpoint.folders import LocalFolder
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
LocalFolder(sys.argv[1]).write("7", bytes(2000))
"""


def test_a_file_that_does_not_fit_leaves_no_part_of_it(tmp_path):
    LocalFolder(str(tmp_path)).write("6", b"six")
    done = subprocess.run([sys.executable, "-c", _FULL, tmp_path], capture_output=True, text=True, check=False)
    assert "File too large" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["6"]


def test_what_killed_processes_left_of_a_version_is_no_version_and_goes(tmp_path):
    versions, folder = Versions(str(tmp_path)), LocalFolder(str(tmp_path))
    left = [name_partial(f"{number:012d}") for number in (1, 2, 9)]
    for name in left:
        (tmp_path / name).write_bytes(b"par")
    assert versions.newest(100) is None
    for number in (1, 2, 3):
        versions.write(number, b"%d" % number)
    assert versions.newest(100) == (3, b"3")
    assert list_numbers(folder) == [1, 2, 3]
    assert [name for name in folder.names() if name.startswith(".")] == left[2:], "it may be written now"


def test_the_driver_that_has_a_checkpoint_removes_what_killed_drivers_left(tmp_path):
    own = tmp_path / "unskew"
    own.mkdir()
    (own / name_partial("run.json")).write_text("{")
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.claim({"grouping": "KEY"})
    checkpoint.require_writable()
    assert len(list(own.iterdir())) == 2, "another driver may be writing it"
    checkpoint.tidy()
    assert [path.name for path in own.iterdir()] == ["run.json"]


def test_old_logs_go(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    names = [f"spark-{ended.pid}.log.{number}" for number in range(30)] + [f"spark-{os.getpid()}.log"]
    for age, name in enumerate(names):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1_000_000 - age, 1_000_000 - age))
    session._remove_old_logs(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*names[:20], names[-1]}


def test_sparks_log_rolls(spark):
    log = session.get_log_file()
    logger = spark._jvm.org.slf4j.LoggerFactory.getLogger("tests")
    for _ in range(45):
        logger.error("x" * 1_000_000)
    found = sorted(log.parent.glob(f"{log.name}*"))
    assert [path.name for path in found] == [log.name, f"{log.name}.1", f"{log.name}.2"]
    assert max(path.stat().st_size for path in found) < 12_000_000
    for path in found[1:]:
        path.unlink()


@pytest.mark.nightly(group="clusters")
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.takes(60)
def test_the_next_run_removes_the_temporary_files_of_one_that_was_killed(launch, truth, tmp_path):
    folder = tmp_path / "temporary"
    folder.mkdir()
    topology = launch("KEY", "--max-tuples", "2000", environment={"TMPDIR": str(folder)})
    topology.await_batches(1)
    os.killpg(topology.process.pid, signal.SIGKILL)
    topology.process.wait()
    assert list(folder.glob("unskew-run-*/artifacts-*"))
    topology.start()
    topology.await_end()
    awaited(lambda: not list(folder.iterdir()), f"nothing in {folder}")
    assert not list(Path("/tmp").glob(f"unskew-run-{topology.process.pid}-*"))
