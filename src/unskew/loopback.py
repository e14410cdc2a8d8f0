"""The loopback interface: its free TCP ports, and HTTP requests to the servers that listen there."""

import json
import random
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from unskew.errors import EnvironmentFault

LOOPBACK = "127.0.0.1"

# Below the range from which the kernel takes ports for outgoing connections. In that range, a client that tries to
# reconnect while its server is down can take the server's port (even by connecting to itself).
_CHOICE = range(20_000, 32_768)
_ATTEMPTS = 300
#: Opens URLs past any proxy.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def free_port() -> int:
    """A port on the loopback address that nothing listens on now. The first program that binds it gets it.

    Raises
    ------
    EnvironmentFault
        If this machine lets us listen on no port.
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


def fetch_response(url: str, body: Mapping[str, Any] | None = None, *, timeout: float = 10) -> Any:
    """The answer of a server on this machine: the JSON of its response, or the text if that isn't JSON.

    Parameters
    ----------
    url
        The URL of the request.
    body
        The value to send as JSON, by POST. Without it the request is a GET.
    timeout
        Seconds to wait for the server.

    Raises
    ------
    OSError
        If there is no response, or an HTTP error. Its text has the server's explanation.
    """
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"} if data else {})  # noqa: S310  ours
    try:
        with DIRECT.open(request, timeout=timeout) as answer:
            text = answer.read().decode()
    except urllib.error.HTTPError as error:
        raise OSError(f"HTTP {error.code} {error.reason}: {error.read().decode(errors='replace')[:500]}") from error
    try:
        return json.loads(text)
    except ValueError:
        return text
