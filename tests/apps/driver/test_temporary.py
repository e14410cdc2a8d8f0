"""The temporary folder of a run: nobody removes it while the run lives, whatever its process id says."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.waiting import awaited
from unskew.file_locks import is_locked, lock_and_rename

_RUN = """
import sys
from unskew.apps.driver import session
print(session._make_temporary_folder(), flush=True)
sys.stdin.read()
"""
# Process ids count anew in a namespace of their own, here from a given one on.
_FROM = 'echo $(($0 - 1)) > /proc/sys/kernel/ns_last_pid && "$@"; exit $?'
_IN_NAMESPACE = ["unshare", "--pid", "--fork", "--kill-child", "sh", "-c", _FROM]


def no_process() -> int:
    """A process id that nobody has."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def has_namespaces() -> bool:
    try:
        return not subprocess.run([*_IN_NAMESPACE, "100", "true"], capture_output=True, check=False).returncode
    except FileNotFoundError:
        return False


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., tuple[subprocess.Popen[str], Path]]]:
    """Start a process as a run; the process and its folder."""
    started: list[subprocess.Popen[str]] = []

    def start(*before: str) -> tuple[subprocess.Popen[str], Path]:
        command = [*before, sys.executable, "-c", _RUN]
        environment = {**os.environ, "TMPDIR": str(tmp_path)}
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
        )
        started.append(process)
        assert process.stdout
        return process, Path(process.stdout.readline().strip())

    yield start
    for process in started:
        process.kill()
        process.communicate()


def outlasts(run: Callable[..., tuple[subprocess.Popen[str], Path]], process: subprocess.Popen[str], folder: Path):
    """The folder stays as long as the process lives; the next run then removes it."""

    def next_run() -> Path:
        other, own = run()
        other.communicate()
        assert not other.returncode
        assert not own.exists()
        return folder

    assert next_run().is_dir(), "another run removed it"
    process.kill()
    process.wait()
    awaited(lambda: not next_run().exists(), f"the removal of {folder}")


@pytest.mark.ci
@pytest.mark.slow
@pytest.mark.skipif(not has_namespaces(), reason="no PID namespaces here, or not for this user")
def test_it_outlasts_runs_of_another_container_that_shares_the_folder(run):
    pid = no_process()
    process, folder = run(*_IN_NAMESPACE, str(pid))
    assert folder.name.startswith(f"unskew-run-{pid}-")
    outlasts(run, process, folder)


@pytest.mark.ci
@pytest.mark.slow
def test_it_is_the_hold_that_counts_and_not_the_process_id(run):
    process, folder = run()
    outlasts(run, process, folder.rename(folder.with_name(f"unskew-run-{no_process()}-x")))


def test_what_cannot_be_told_is_held(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert is_locked(tmp_path / "link")
    assert is_locked(tmp_path / "missing")
    assert not is_locked(tmp_path / "pipe")
    held = lock_and_rename(tmp_path, tmp_path)
    assert is_locked(tmp_path)
    os.close(held)
    assert not is_locked(tmp_path)
