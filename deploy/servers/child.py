"""Server processes of ours: in a session of their own, with a log, and (unless detached) never outliving us."""

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

_LEASH = Path(__file__).with_name("leash.py")


class Child:
    """A server process.

    It has a session of its own, so that Ctrl-C reaches only us and we stop it in good order. Unless `detached` it is
    sent a signal when this process dies in whatever way (on Linux; elsewhere only when we end by ourselves).

    Parameters
    ----------
    command
        Program and arguments.
    log
        File that both output streams are appended to.
    environment
        Variables that are added to ours.
    detached
        Let it live on when we end.
    keep_open
        File descriptors that it inherits.
    at_our_death
        The signal that it is sent then. A process that may be paused (SIGSTOP) would sleep through all but SIGKILL.
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
            argv = [sys.executable, "-I", "-S", str(_LEASH), str(os.getpid()), str(at_our_death.value), *argv]

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

        self._process = _in_lasting_thread(start)

    @property
    def pid(self) -> int:
        """Its process id (and its session's)."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def stop(self, patience: float = 30) -> None:
        """Ask it to end (SIGTERM), wait, and after `patience` seconds kill it."""
        if self.alive:
            self._process.terminate()
            try:
                self._process.wait(patience)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """End it and all processes of its session at once (SIGKILL)."""
        if self.alive:
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()


def end(pid: int, runs: Callable[[], bool], patience: float = 30) -> None:
    """Ask a server that another process of ours started to end (SIGTERM), and after `patience` seconds kill it.

    Parameters
    ----------
    pid
        Its process id.
    runs
        Whether it still does; this waits until it doesn't.
    patience
        Seconds.
    """
    deadline = time.monotonic() + patience
    os.kill(pid, signal.SIGTERM)
    while runs():
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            deadline += patience
        time.sleep(0.05)


def _in_lasting_thread(start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    # The parent-death signal is sent when the *thread* that forked ends, so that can't be a caller's short-lived one.
    answer: queue.SimpleQueue[subprocess.Popen[bytes] | BaseException] = queue.SimpleQueue()
    _requests(os.getpid()).put((start, answer))
    result = answer.get()
    if isinstance(result, BaseException):
        raise result
    return result


@cache
def _requests(_pid: int) -> queue.SimpleQueue:  # by process id: a fork doesn't inherit the thread
    requests = queue.SimpleQueue()

    def serve() -> None:
        while True:
            start, answer = requests.get()
            try:
                answer.put(start())
            except BaseException as error:  # noqa: BLE001  it is raised where the child was asked for
                answer.put(error)

    threading.Thread(target=serve, name="unskew-children", daemon=True).start()
    return requests
