"""A way between two parts of a run that can be cut: it passes bytes on, or for a while it doesn't.

    python -m evidence.faults.proxy OUTSIDE INSIDE PORT ...

A server listens on a port of the loopback address INSIDE, and says that it is to be reached at OUTSIDE, with the same
port. There this process listens and passes all bytes on, both ways. While it is stopped (SIGSTOP), connections stay
open, new ones get no answer, and no byte is lost, as when a network drops packets and the ends send them again.
What goes another way isn't cut.
"""

import argparse
import asyncio
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Self

from unskew.deploy.servers.process import ChildProcess
from unskew.errors import EnvironmentFault
from unskew.loopback import LOOPBACK, free_port, is_free

#: The address at which proxies listen. On Linux all of 127.0.0.0/8 is this machine.
OUTSIDE = "127.0.0.2"
_MOST = 1 << 16  # bytes at a time
_PATIENCE = 60.0  # s until it listens


def free_ports(number: int) -> range:
    """So many neighbouring ports that nothing listens on now."""
    while True:
        first = free_port()
        if all(is_free(first + more) for more in range(1, number)):
            return range(first, first + number)


class Proxy:
    """A process that passes on what comes to ports of ``OUTSIDE``, to the same ports of the servers' own address.

    It is a context manager: the process runs inside the block, and ends with ours.

    ``log``: The file of what it prints. ``ports``: The ports. A server needn't listen yet: until it does, connections
    are closed at once.
    """

    def __init__(self, log: Path, ports: range) -> None:
        self._log = log
        self.ports = ports
        self._child: ChildProcess | None = None

    def __enter__(self) -> Self:
        """Start it, and wait until it listens.

        Raises EnvironmentFault: It doesn't: a port is taken, or the system has no such address.
        """
        command = [sys.executable, "-m", "evidence.faults.proxy", OUTSIDE, LOOPBACK, *map(str, self.ports)]
        # It may be stopped when we die, and would sleep through SIGTERM.
        self._child = ChildProcess(command, self._log, at_our_death=signal.SIGKILL)
        deadline = time.monotonic() + _PATIENCE
        while not self._listens():
            if not self._child.alive or time.monotonic() > deadline:
                self._child.kill()
                raise EnvironmentFault(f"no proxy listens at {OUTSIDE}; its log is {self._log}")
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        """End it, and with it all connections."""
        if self._child is not None:
            self._child.kill()

    def cut(self) -> None:
        """Pass no more bytes on."""
        self._signal(signal.SIGSTOP)

    def mend(self) -> None:
        """Pass bytes on again, first those that have come meanwhile."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._child is not None
        os.kill(self._child.pid, number)

    def _listens(self) -> bool:
        """Whether it listens at its last port, and so at all of them."""
        try:
            socket.create_connection((OUTSIDE, self.ports[-1]), 1.0).close()
        except OSError:
            return False
        return True


async def serve(outside: str, inside: str, ports: list[int]) -> None:
    """Listen for ever, and connect each connection with the same port inside."""
    for port in ports:

        async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int = port) -> None:
            await _join(reader, writer, inside, port)

        await asyncio.start_server(join, outside, port)
    await asyncio.Event().wait()


async def _join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, inside: str, port: int) -> None:
    try:
        from_server, to_server = await asyncio.open_connection(inside, port)
    except OSError:
        writer.transport.abort()  # nothing listens there now
        return
    ends = writer, to_server
    await asyncio.gather(_hand_on(reader, to_server, ends), _hand_on(from_server, writer, ends))
    for end in ends:
        end.close()


async def _hand_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ends: tuple[asyncio.StreamWriter, ...]
) -> None:
    """Hand on one end's bytes, and at last its end; where a connection breaks, close the other one, too."""
    try:
        while found := await reader.read(_MOST):
            writer.write(found)
            await writer.drain()
        writer.write_eof()
    except OSError:
        for end in ends:
            end.transport.abort()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("outside")
    parser.add_argument("inside")
    parser.add_argument("ports", type=int, nargs="+")
    given = parser.parse_args()
    asyncio.run(serve(given.outside, given.inside, given.ports))


if __name__ == "__main__":
    main()
