"""Server processes: starting them, ending them with this process, and commands that run them in the foreground.

Each process has a session and a log. None outlives this process, unless detached.
"""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

_UNTIL_PARENT_DIES = Path(__file__).with_name("parent_death.py")


class ChildProcess:
    """A server process.

    It has a separate session, so that Ctrl-C reaches only this process, which shuts it down. Unless `detached`, on
    Linux it gets a signal when this process dies, however it dies. Elsewhere it ends only if this process stops it.

    Parameters
    ----------
    command, log, environment
        Program and arguments, the file to append both output streams to, and variables in addition to ours.
    detached
        Whether the process outlives this one.
    keep_open
        File descriptors that the process inherits.
    at_our_death
        The signal at this process's death. A paused process (SIGSTOP) ignores all but SIGKILL.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        detached: bool = False,
        keep_open: Sequence[int] = (),
        at_our_death: signal.Signals = signal.SIGTERM,
    ) -> None:
        argv = [str(part) for part in command]
        if not detached:
            argv = [
                sys.executable,
                "-I",
                "-S",
                str(_UNTIL_PARENT_DIES),
                str(os.getpid()),
                str(at_our_death.value),
                *argv,
            ]

        def start() -> subprocess.Popen[bytes]:
            with log.open("ab") as output:
                return subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **(environment or {})},
                    start_new_session=True,
                    pass_fds=tuple(keep_open),
                )

        self._process = _start_in_lasting_thread(start)

    @property
    def pid(self) -> int:
        """Its process id, which is also its session's."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def stop(self, patience: float = 30) -> None:
        """Send SIGTERM, wait for the process's end, and kill it after `patience` seconds."""
        if self.alive:
            self._process.terminate()
            try:
                self._process.wait(patience)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """Kill the process and all others of its session (SIGKILL)."""
        if self.alive:
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()


def end_process(pid: int, runs: Callable[[], bool], patience: float = 30) -> None:
    """End a server started by another process of ours: SIGTERM, then SIGKILL after `patience` seconds.

    `runs` says whether it still runs.
    """
    deadline = time.monotonic() + patience
    os.kill(pid, signal.SIGTERM)
    while runs():
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            deadline += patience
        time.sleep(0.05)


def _start_in_lasting_thread(start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    # Linux sends the parent-death signal when the *thread* that forked ends. The caller's thread may end soon.
    answer: queue.SimpleQueue[subprocess.Popen[bytes] | BaseException] = queue.SimpleQueue()
    _request_queue(os.getpid()).put((start, answer))
    result = answer.get()
    if isinstance(result, BaseException):
        raise result
    return result


@cache
def _request_queue(_pid: int) -> queue.SimpleQueue:  # a queue per process id, because a fork doesn't inherit the thread
    requests = queue.SimpleQueue()

    def serve() -> None:
        while True:
            start, answer = requests.get()
            try:
                answer.put(start())
            except BaseException as error:  # noqa: BLE001  `_start_in_lasting_thread` raises it
                answer.put(error)

    threading.Thread(target=serve, name="unskew-children", daemon=True).start()
    return requests


class ForegroundCommand:
    """A command that runs its server in the foreground until the user stops it.

    From its creation on, Ctrl-C, SIGTERM and SIGHUP (a closing terminal) only make `stay` return, so that the command
    can shut down the server.
    """

    def __init__(self) -> None:
        self._signalled = False
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(name, self._note)

    def stay(self, alive: Callable[[], bool]) -> bool:
        """Wait until the user stops the command (True), or the server ends by itself (False)."""
        while alive() and not self._signalled:
            time.sleep(0.1)
        return self._signalled

    def _note(self, *_: object) -> None:
        self._signalled = True
