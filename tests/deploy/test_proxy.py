"""A proxy in the environment isn't asked for the servers of this machine."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from unskew.deploy.servers.cluster import Cluster
from unskew.deploy.servers.loopback import LOOPBACK, free_port


class Master(BaseHTTPRequestHandler):
    answer = b'{"aliveworkers": 2}'

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_):
        pass


@pytest.fixture
def master():
    with HTTPServer((LOOPBACK, 0), Master) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_the_cluster_s_master_is_asked_directly(master, monkeypatch, tmp_path):
    monkeypatch.setenv("http_proxy", f"http://{LOOPBACK}:{free_port()}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    cluster = Cluster(tmp_path)
    cluster._ui = master
    assert cluster._alive_workers() == 2
    monkeypatch.setattr(Master, "answer", b"<html>not yet</html>")
    assert cluster._alive_workers() == 0
