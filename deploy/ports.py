"""Free TCP ports of this machine."""

import random
import socket

LOOPBACK = "127.0.0.1"

# Below the range from which the kernel takes ports for outgoing connections: there, while a server is down, one of its
# own clients' attempts to reconnect can take its port (even by connecting to itself).
_CHOICE = range(20_000, 32_768)


def free_port() -> int:
    """A port on the loopback address that nothing listens on now; whoever binds it first has it."""
    choice = random.SystemRandom()
    while True:
        port = choice.choice(_CHOICE)
        if is_free(port):
            return port


def is_free(port: int) -> bool:
    """Whether a server could listen on the loopback address's `port` now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do, so TIME_WAIT is no obstacle
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
