"""A run that hangs is ended from within, so that whoever starts what has ended starts it again."""

import subprocess
import sys

from tests.commands import unskew
from tests.waiting import PATIENCE, gone
from unskew.apps.cli import execution
from unskew.apps.cli.watchdog import HUNG, Watchdog


def watched(limit, begun=lambda: True):
    ended = []
    return Watchdog(limit, begun, ended.append), ended


def test_a_run_without_a_batch_for_too_long_is_ended_once():
    watchdog, ended = watched(30.0)
    for _ in range(1000):
        watchdog.progress({})
        assert not watchdog.look(29.0)
    watchdog.progress({})
    assert [watchdog.look(10.0) for _ in range(4)] == [False, False, False, True]
    assert ended == [40.0]


def test_the_first_batch_has_ten_minutes_at_least():
    for limit, looks in ((30.0, 61), (900.0, 91)):
        watchdog, ended = watched(limit)
        assert [watchdog.look(10.0) for _ in range(looks)].index(True) == looks - 1
        assert ended == [10.0 * looks]


def test_a_run_that_waits_for_another_driver_is_not_watched():
    turn = []
    watchdog, ended = watched(30.0, lambda: bool(turn))
    assert not any(watchdog.look(100.0) for _ in range(100))
    turn.append("the other one has ended")
    assert not watchdog.look(100.0)
    assert not ended


def test_the_process_ends_with_its_jvm_though_both_hang():
    """The process waits for ever, and what stands for the JVM is stopped."""
    program = """
import os, signal, subprocess, sys, threading
from types import SimpleNamespace
from pyspark import SparkContext
from unskew.apps.cli.watchdog import Watchdog

jvm = subprocess.Popen(["sleep", "1000"])
os.kill(jvm.pid, signal.SIGSTOP)
SparkContext._gateway = SimpleNamespace(proc=jvm)
print(jvm.pid, flush=True)
with Watchdog(0.5, lambda: True) as watchdog:
    watchdog.progress({})
    threading.Event().wait()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == HUNG == 4, done.stderr
    assert done.stderr == (
        "unskew: no batch has ended for 1 s, so this run ends (--batch-timeout); start it again, and it goes on from "
        "its checkpoint\n"
    )
    assert gone(int(done.stdout))


GOOD = ["topology", "LOCAL", "COUNTRY_SKEW_R80", "KEY", "t", "2", "4", "x0", "--bootstrap-servers", "localhost:1"]


def test_it_is_an_option_of_the_command(monkeypatch):
    got = {}
    monkeypatch.setattr(execution, "execute_topology", lambda *_, **named: got.update(named))
    for more, limit in (([], None), (["--batch-timeout", "300"], 300.0)):
        assert unskew(*GOOD, *more).returncode == 0
        assert got["batch_timeout"] == limit
    done = unskew(*GOOD, "--batch-timeout", "60")
    assert done.returncode == 2
    assert "--batch-timeout" in done.stderr, "an idle run would reach that"
