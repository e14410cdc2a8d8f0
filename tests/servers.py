"""InfluxDB's program is made beside the tests that do without it, where it isn't there yet: it takes minutes.

One process makes it, at low priority, however many run tests; those that need it come last and wait. It ends with them.
"""

import fcntl
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unskew.deploy.home import cache
from unskew.deploy.installation.programs.influxd import influxd, present
from unskew.deploy.installation.programs.influxd_build import build_log
from unskew.errors import EnvironmentFault

_EVERY = 60.0  # seconds between words to who waits
_makers: list[subprocess.Popen] = []  # nobody waits for them, and Python warns of those that it forgets


def needs_influxdb(item: pytest.Item) -> bool:
    """Whether the test needs InfluxDB's program."""
    return "influxd_program" in getattr(item, "fixturenames", ())


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """To get the program, at the least, takes its time."""
    for item in filter(needs_influxdb, items):
        item.add_marker(pytest.mark.slow)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist tells that the collection is done, so before any test runs
def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin to make the program if it isn't there and a chosen test needs it."""
    config = session.config
    if config.option.collectonly or not any(map(needs_influxdb, session.items)) or not lacking():
        return
    # Under pytest-xdist we are one of several, all children of the process to live with.
    if _begin(os.getppid() if hasattr(config, "workerinput") else os.getpid()):
        _tell(config, "InfluxDB is got beside the tests, at low priority; those that need it come last")


def influxd_waited_for(config: pytest.Config) -> Path:
    """The program, when it has been made.

    Raises
    ------
    EnvironmentFault
        If it can't be had.
    """
    if lacking() and (reason := _wait(config)):
        raise EnvironmentFault(reason)
    return influxd()  # made here and now if who made it was ended with other tests


def lacking() -> bool:
    """Whether the program must be made."""
    try:
        return present() is None
    except EnvironmentFault:
        return False


def _begin(live_with: int) -> bool:
    """Start who makes the program, unless somebody is making it."""
    try:
        cache().mkdir(parents=True, exist_ok=True)
        with _busy().open("w") as lock, _said().open("a") as said:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            said.truncate(0)
            # It inherits the lock and so holds it as long as it lives.
            command = [sys.executable, "-m", "unskew.deploy.installation.programs", "--beside", str(live_with)]
            ways = {"stdin": subprocess.DEVNULL, "stdout": said, "stderr": said, "pass_fds": [lock.fileno()]}
            _makers.append(subprocess.Popen(command, **ways))
    except OSError:  # the lock isn't free; or nothing can be written there, which a test that needs it will say
        return False
    return True


def _wait(config: pytest.Config) -> str:
    """Wait until nobody makes it; why that failed, empty if it didn't."""
    word = time.monotonic()
    with _busy().open("a") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= word:
                    _tell(config, f"waiting for InfluxDB: {_lines()} packages built of about 1300 (log: {build_log()})")
                    word = time.monotonic() + _EVERY
                time.sleep(0.5)
            else:
                faults = re.findall("^unskew: (.*InfluxDB.*)", _said().read_text(), re.MULTILINE)
                return "".join(faults[:1])


def _lines() -> int:
    return build_log().read_text(errors="replace").count("\n") if build_log().is_file() else 0


def _busy() -> Path:
    return cache() / "tests.lock"


def _said() -> Path:
    return cache() / "tests.log"


def _tell(config: pytest.Config, what: str) -> None:
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(f"\nunskew: {what}", file=sys.stderr, flush=True)
