"""HTTP requests to servers on this machine: past any proxy, answered as JSON."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(url: str, body: Mapping[str, Any] | None = None, *, timeout: float = 10) -> Any:
    """The answer's JSON, or its text if it is none.

    Parameters
    ----------
    url
        Where to ask.
    body
        What to send as JSON, by POST; by default it is a GET.
    timeout
        Seconds to wait for the server.

    Raises
    ------
    OSError
        No answer, or an HTTP error; its text has what the server says of it.
    """
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"} if data else {})  # noqa: S310  ours
    try:
        with _DIRECT.open(request, timeout=timeout) as answer:
            text = answer.read().decode()
    except urllib.error.HTTPError as error:
        raise OSError(f"HTTP {error.code} {error.reason}: {error.read().decode(errors='replace')[:500]}") from error
    try:
        return json.loads(text)
    except ValueError:
        return text
