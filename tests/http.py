"""Stand-ins for HTTP servers: what answers them is the test's, the rest is here. And Prometheus' side of a page."""

import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeVar

S = TypeVar("S", bound=ThreadingHTTPServer)


class Request(BaseHTTPRequestHandler):
    """A request, whose ``do_…`` call ``answer``. Nothing is printed."""

    def answer(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        """Send the answer."""
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def serving(server: S) -> Iterator[S]:
    """A server that answers inside the block."""
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def series(url: str) -> dict[str, float]:
    """The series of a page for Prometheus → their values."""
    with urllib.request.urlopen(url) as answer:
        lines = answer.read().decode().splitlines()
    return {each: float(value) for each, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}
