"""A server program as a process of ours on a loopback port: what Kafka, InfluxDB and Prometheus have in common."""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from unskew.deploy.servers.child import Child
from unskew.deploy.servers.occupancy import occupied, write_address
from unskew.deploy.servers.ports import LOOPBACK, free_port, is_free
from unskew.errors import EnvironmentFault

_ATTEMPTS = 3


class Server:
    """A server; as a context manager it runs inside the block.

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
    leash: signal.Signals = signal.SIGTERM
    """What ends it when our process has died."""

    def __init__(self, directory: Path, *, port: int | None = None) -> None:
        self.directory = directory.absolute()
        self.log = self.directory / f"{self.name.lower()}.log"
        self._called = f"the {self.name}" if self.name.islower() else self.name  # a proper name has no article
        self._port = port
        self._child: Child | None = None
        self._log_start = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def listens(self) -> str:
        """`host:port` for clients; known from the first start on."""
        if self._port is None:
            raise RuntimeError(f"{self._called} has not been started yet")
        return f"{LOOPBACK}:{self._port}"

    @property
    def pid(self) -> int:
        """Its process id; it must have been started."""
        if self._child is None:
            raise RuntimeError(f"{self._called} is not running")
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
            except PortTakenError as taken:
                self.kill()
                if not attempts:
                    raise EnvironmentFault(str(taken)) from None
                self._port = None  # it was snatched between our choosing and the server's binding
            except BaseException:
                self.kill()
                raise
            else:
                write_address(self.directory, self.name, {**self._announcement(), "pid": self.pid})
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

    def _command(self) -> Sequence[str | Path]:
        """The program and its arguments, with all files it needs written; it shall listen where `listens` says."""
        raise NotImplementedError

    def _answers(self) -> bool:
        """Whether it can be used now; called again and again after its start."""
        raise NotImplementedError

    def _announcement(self) -> dict[str, str]:
        """What clients have to know."""
        raise NotImplementedError

    def _explain(self, said: str) -> str:
        """The end of a line on why it ended while starting, from what its log says since then."""
        return (said.strip().splitlines() or ["it said nothing"])[-1][:300]

    def _launch(self, *, detached: bool) -> None:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self.log.touch()
        except OSError as error:
            raise EnvironmentFault(
                f"cannot write {self._called}'s data to {self.directory}: {error.strerror}"
            ) from error
        with occupied(self.directory, self.name, patience=1) as lock:  # a look at who runs holds it for a moment
            if self._port is None:
                self._port = free_port()
            elif not is_free(self._port):
                raise PortTakenError(self._port)
            self._log_start = self.log.stat().st_size
            command = self._command()
            self._child = Child(command, self.log, detached=detached, keep_open=[lock], at_our_death=self.leash)

    def _await_ready(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if not self.alive:
                said = self._said()
                if "address already in use" in said.lower():
                    raise PortTakenError(self._port)
                raise EnvironmentFault(f"{self._called} ended while starting: {self._explain(said)} (log: {self.log})")
            if self._answers():
                return
            time.sleep(0.05)
        raise EnvironmentFault(f"{self._called} did not answer within {timeout:g} s; its log is {self.log}")

    def _said(self) -> str:
        with self.log.open("rb") as file:
            file.seek(self._log_start)
            return file.read().decode(errors="replace")


class PortTakenError(Exception):
    """Another program has the port that was chosen for a server."""

    def __init__(self, port: int | None) -> None:
        super().__init__(f"port {port} is taken by another program; stop that, or choose another port")
