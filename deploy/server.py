"""A server program as a process of ours on a loopback port: what InfluxDB and Prometheus have in common."""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from deploy.child import Child
from deploy.errors import EnvironmentFault
from deploy.loopback import ask
from deploy.occupancy import occupied, write_address
from deploy.ports import LOOPBACK, free_port, is_free

_ATTEMPTS = 3


class Server:
    """A server that answers HTTP; as a context manager it runs inside the block.

    A subclass says what to run and when it is ready. The port is chosen at the first start and kept by this object's
    later ones, so that clients find it again. The process ends with ours, however that ends, unless it is detached.

    Parameters
    ----------
    directory
        Its own: data, settings, log. Two servers of a kind can't share one.
    port
        Where clients connect; a free port by default.
    """

    name: str
    """The kind of server in words."""
    health: str
    """Path that answers with status 200 as soon as it can be used."""

    def __init__(self, directory: Path, *, port: int | None = None) -> None:
        self.directory = directory.absolute()
        self.log = self.directory / f"{self.name.lower()}.log"
        self._port = port
        self._child: Child | None = None
        self._log_start = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """`http://host:port` for clients; known from the first start on."""
        if self._port is None:
            raise RuntimeError(f"{self.name} has not been started yet")
        return f"http://{LOOPBACK}:{self._port}"

    @property
    def pid(self) -> int:
        """Its process id; it must have been started."""
        if self._child is None:
            raise RuntimeError(f"{self.name} is not running")
        return self._child.pid

    @property
    def alive(self) -> bool:
        """Whether its process runs (or is paused)."""
        return self._child is not None and self._child.alive

    def start(self, *, timeout: float = 60, detached: bool = False) -> None:
        """Start it and wait until it answers; one that runs is left alone.

        Parameters
        ----------
        timeout
            Seconds to wait; one is usual.
        detached
            Let it outlive this process.

        Raises
        ------
        EnvironmentFault
            No program, no room, a port or directory that is taken, or no answer in time.
        """
        if self.alive:
            return
        attempts = _ATTEMPTS if self._port is None else 1
        while True:
            attempts -= 1
            try:
                self._launch(detached=detached)
                self._await_ready(timeout)
            except _PortTakenError as taken:
                self.kill()
                if not attempts:
                    raise EnvironmentFault(str(taken)) from None
                self._port = None  # it was snatched between our choosing and the server's binding
            except BaseException:
                self.kill()
                raise
            else:
                write_address(self.directory, self.name, {"url": self.url, "pid": self.pid, **self._announcement()})
                return

    def stop(self) -> None:
        """Stop it in good order; the data stay."""
        if self._child is not None:
            if self._child.alive:
                self.resume()  # a paused one would not hear of it
            self._child.stop()
            self._child = None

    def kill(self) -> None:
        """End it at once, as a crash would (SIGKILL); the data stay."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def restart(self) -> None:
        """Stop and start again with the same data and address."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Let it hang: connections open, nothing answers (SIGSTOP)."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        os.kill(self.pid, signal.SIGCONT)

    def _command(self, listen: str) -> Sequence[str | Path]:
        """The program and its arguments, with all files it needs written; `listen` is `host:port`."""
        raise NotImplementedError

    def _ready(self) -> None:
        """Do what is left to do when the server answers for the first time."""

    def _announcement(self) -> dict[str, str]:
        """What clients have to know beside the address."""
        return {}

    def _launch(self, *, detached: bool) -> None:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self.log.touch()
        except OSError as error:
            raise EnvironmentFault(f"cannot write {self.name}'s data to {self.directory}: {error.strerror}") from error
        with occupied(self.directory, self.name, patience=1) as lock:  # a look at who runs holds it for a moment
            if self._port is None:
                self._port = free_port()
            elif not is_free(self._port):
                raise _PortTakenError(self._port)
            command = self._command(f"{LOOPBACK}:{self._port}")
            self._log_start = self.log.stat().st_size
            # SIGKILL, since it may be paused when we die; their logs of writes make that as good as a stop.
            leash = signal.SIGKILL
            self._child = Child(command, self.log, detached=detached, keep_open=[lock], at_our_death=leash)

    def _await_ready(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if not self.alive:
                said = self._said()
                if "address already in use" in said:
                    raise _PortTakenError(self._port)
                last = (said.strip().splitlines() or ["it said nothing"])[-1]
                raise EnvironmentFault(f"{self.name} ended while starting: {last[:300]} (log: {self.log})")
            try:
                ask(self.url + self.health, timeout=2)
            except OSError:
                time.sleep(0.05)
                continue
            if self.alive:  # else it is another one on our port that answers
                self._ready()
                return
        raise EnvironmentFault(f"{self.name} did not answer within {timeout:g} s; its log is {self.log}")

    def _said(self) -> str:
        with self.log.open("rb") as file:
            file.seek(self._log_start)
            return file.read().decode(errors="replace")


class _PortTakenError(Exception):
    def __init__(self, port: int | None) -> None:
        super().__init__(f"port {port} is taken by another program; stop that, or choose another port")
