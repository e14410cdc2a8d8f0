"""What answers where the preview expects a Prometheus, and is none."""

import socket
import threading
from datetime import UTC, datetime, timedelta

import pytest

from unskew.dashboards.preview.data_sources import Prometheus
from unskew.dashboards.preview.selection import Selection
from unskew.errors import EnvironmentFault

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.0 200 OK\r\n\r\n<html>Grafana</html>",
        b"HTTP/1.0 200 OK\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\n\r\n[]",
        b"SSH-2.0-OpenSSH_9.2\r\n",
    ],
)
def test_another_server_is_one_line(answer):
    def serve():
        client, _ = listener.accept()
        with client:
            client.recv(1 << 16)
            client.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            with pytest.raises(EnvironmentFault, match=f"what answers at {url} is not Prometheus"):
                Prometheus(url).answer({"expr": "up"}, Selection(start=NOW - timedelta(hours=1), stop=NOW))
        finally:
            thread.join()
