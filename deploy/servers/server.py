"""The base class of Kafka, InfluxDB and Prometheus as processes.

A server listens on a port of the loopback interface and has a directory, with its data, log, address for clients, and
port of the last run, and a lock that the running server holds.
"""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from unskew.deploy.servers.process import ChildProcess
from unskew.errors import EnvironmentFault
from unskew.file_locks import write_private
from unskew.loopback import LOOPBACK, fetch_response, free_port, is_free
from unskew.server_addresses import lock_directory, write_address

_ATTEMPTS = 3  # to start on a port that the caller hasn't chosen
_LOG_BYTES = 10 << 20  # a start renames a larger log, replacing the previous one


class ServerProcess:
    """A server, which as a context manager runs inside the block.

    A subclass defines what to run, and when the server is ready. The server keeps its port over all starts of this
    object, so that clients find it again, and so does a later object on the same directory, unless another program has
    taken it. Unless the server is detached, its process ends with ours, however ours ends.

    Parameters
    ----------
    directory
        The server's directory of data, settings and log. Servers of a kind can't share one.
    port
        The port for clients. Default: the port of the directory's last run, or a free one.
    """

    name: str
    """The kind of server in words."""
    leash: signal.Signals = signal.SIGTERM
    """The signal that ends the server when our process has died."""

    def __init__(self, directory: Path, *, port: int | None = None) -> None:
        self.directory = directory.absolute()
        self.log = self.directory / f"{self.name.lower()}.log"
        self._title = f"the {self.name}" if self.name.islower() else self.name  # proper names have no article
        self._port = port
        self._child: ChildProcess | None = None
        self._log_start = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def listen_address(self) -> str:
        """`host:port` for clients, known from the first start on."""
        if self._port is None:
            raise RuntimeError(f"{self._title} has not been started yet")
        return f"{LOOPBACK}:{self._port}"

    @property
    def pid(self) -> int:
        """Its process id. The server must have been started."""
        if self._child is None:
            raise RuntimeError(f"{self._title} is not running")
        return self._child.pid

    @property
    def alive(self) -> bool:
        """Whether its process runs or is paused."""
        return self._child is not None and self._child.alive

    def start(self, *, timeout: float = 300, detached: bool = False) -> None:
        """Start the server, unless it runs, and wait until it answers, which may take a minute on a busy machine.

        A `detached` server outlives this process.

        Raises ``EnvironmentFault`` if the program or disk space is missing, a port or directory is taken, or there is
        no answer in time.
        """
        if self.alive:
            return
        attempts, former = 1, None
        if self._port is None:
            attempts, former = _ATTEMPTS, _last_port(self.directory, self.name)
            self._port = former
        while True:
            attempts -= 1
            try:
                self._launch(detached=detached)
                self._await_ready(timeout)
            except PortTakenError as taken:
                self.kill()
                if not attempts:
                    raise EnvironmentFault(str(taken)) from None
                self._port = None  # so that the next attempt chooses a free one
            except BaseException:
                self.kill()
                raise
            else:
                break
        moved = {"moved_from": former} if former not in {None, self._port} else {}
        write_private(_port_file(self.directory, self.name), str(self._port))
        write_address(self.directory, self.name, {**self._announcement(), **moved, "pid": self.pid})

    def stop(self) -> None:
        """Shut down the server. Its data stay."""
        if self._child is not None:
            if self._child.alive:
                self.resume()  # a paused process wouldn't notice the signal
            self._child.stop()
            self._child = None

    def kill(self) -> None:
        """Kill the server (SIGKILL), like a crash. Its data stay."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def restart(self) -> None:
        """Stop the server, and start it with the same data and address."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Make the server hang (SIGSTOP): connections stay open, and nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def _command(self) -> Sequence[str | Path]:
        """The program, to listen at `listen_address`, and its arguments; writes the files that it needs."""
        raise NotImplementedError

    def _answers(self) -> bool:
        """Whether the server is ready; called repeatedly after its start."""
        raise NotImplementedError

    def _announcement(self) -> dict[str, str]:
        """What clients must know."""
        raise NotImplementedError

    def _cause(self, output: str) -> str:
        """Why the server ended while starting, as the end of a line, from its output since then."""
        return (output.strip().splitlines() or ["it said nothing"])[-1][:300]

    def _launch(self, *, detached: bool) -> None:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self.log.touch()
        except OSError as error:
            raise EnvironmentFault(
                f"cannot write {self._title}'s data to {self.directory}: {error.strerror}"
            ) from error
        with lock_directory(self.directory, self.name, patience=1) as lock:  # `read_address` briefly holds the lock
            if self._port is None:
                self._port = free_port()
            elif not is_free(self._port):
                raise PortTakenError(self._port)
            if self.log.stat().st_size > _LOG_BYTES:
                self.log.replace(self.log.with_name(f"{self.log.name}.1"))
                self.log.touch()
            self._log_start = self.log.stat().st_size
            command = self._command()
            self._child = ChildProcess(command, self.log, detached=detached, keep_open=[lock], at_our_death=self.leash)

    def _await_ready(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if not self.alive:
                output = self._output()
                if "address already in use" in output.lower():
                    raise PortTakenError(self._port)
                raise EnvironmentFault(f"{self._title} ended while starting: {self._cause(output)} (log: {self.log})")
            if self._answers():
                return
            time.sleep(0.05)
        raise EnvironmentFault(f"{self._title} did not answer within {timeout:g} s; its log is {self.log}")

    def _output(self) -> str:
        """The server's log since its start."""
        with self.log.open("rb") as file:
            file.seek(self._log_start)
            return file.read().decode(errors="replace")


class PortTakenError(Exception):
    """Another program has taken the port chosen for a server."""

    def __init__(self, port: int | None) -> None:
        super().__init__(f"port {port} is taken by another program; stop that, or choose another port")


class HttpServer(ServerProcess):
    """An HTTP server. The status of a path shows when it is ready."""

    health: str
    """Path that answers with status 200 as soon as the server can be used."""
    # The server may be paused when we die, and then ignores SIGTERM. With its write-ahead log, SIGKILL is as good as a
    # stop.
    leash = signal.SIGKILL

    @property
    def url(self) -> str:
        """`http://host:port` for clients. It is known from the first start on."""
        return f"http://{self.listen_address}"

    def _answers(self) -> bool:
        try:
            fetch_response(self.url + self.health, timeout=2)
        except OSError:
            return False
        if not self.alive:  # another server on the port answered
            return False
        self._ready()
        return True

    def _ready(self) -> None:
        """Complete the set-up when the server answers for the first time."""

    def _announcement(self) -> dict[str, str]:
        return {"url": self.url}


def describe_move(title: str, port: int) -> str:
    """A line for the users of a server whose port has changed since its previous run."""
    return f"port {port}, which {title} had before, is taken by another program: clients need the new address"


def _last_port(directory: Path, kind: str) -> int | None:
    try:
        return int(_port_file(directory, kind).read_text())
    except (OSError, ValueError):
        return None


def _port_file(directory: Path, kind: str) -> Path:
    return directory / f"{kind}.port"
