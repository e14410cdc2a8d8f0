"""The loopback interface: free TCP ports, and HTTP requests to servers there."""

import json
import random
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from unskew.errors import EnvironmentFault

LOOPBACK = "127.0.0.1"

# Below the kernel's range of ports for outgoing connections, in which a client that reconnects while its server is down
# can take the server's port (even by connecting to itself).
_CHOICE = range(20_000, 32_768)
_ATTEMPTS = 300
#: Opens URLs without a proxy.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def free_port() -> int:
    """A free port on the loopback address. The first program that binds it gets it.

    Raises ``EnvironmentFault`` if this machine lets us listen on no port.
    """
    choice = random.SystemRandom()
    for _ in range(_ATTEMPTS):
        port = choice.choice(_CHOICE)
        if is_free(port):
            return port
    raise EnvironmentFault(f"no free port on {LOOPBACK}; allow programs to listen there")


def is_free(port: int) -> bool:
    """Whether a server could listen on the loopback address's `port`."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do, so that TIME_WAIT is no obstacle
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def fetch_response(url: str, body: Mapping[str, Any] | None = None, *, timeout: float = 10) -> Any:
    """Fetch a local server's response: its JSON, or the text if it isn't JSON. ``body`` is POSTed as JSON; without it,
    GET.

    Raises ``OSError`` if there is no response within ``timeout`` (s), or an HTTP error, whose text has the server's
    explanation.
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
