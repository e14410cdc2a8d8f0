"""Free TCP ports of this machine."""

import random
import socket

from unskew.errors import EnvironmentFault

LOOPBACK = "127.0.0.1"

# Below the range from which the kernel takes ports for outgoing connections: there, while a server is down, one of its
# own clients' attempts to reconnect can take its port (even by connecting to itself).
_CHOICE = range(20_000, 32_768)
_ATTEMPTS = 300


def free_port() -> int:
    """A port on the loopback address that nothing listens on now; whoever binds it first has it.

    Raises
    ------
    EnvironmentFault
        If this machine lets us have none.
    """
    choice = random.SystemRandom()
    for _ in range(_ATTEMPTS):
        port = choice.choice(_CHOICE)
        if is_free(port):
            return port
    raise EnvironmentFault(f"no free port on {LOOPBACK}; allow programs to listen there")


def is_free(port: int) -> bool:
    """Whether a server could listen on the loopback address's `port` now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do, so TIME_WAIT is no obstacle
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
