"""A proxy in the environment isn't asked for the servers of this machine."""

from datetime import UTC, datetime, timedelta
from http.server import ThreadingHTTPServer

import pytest

from tests.http import Request, serving
from unskew.dashboards.preview.data_sources import Prometheus
from unskew.dashboards.preview.selection import Selection
from unskew.deploy.servers.spark_cluster import SparkCluster
from unskew.loopback import LOOPBACK, free_port

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Master(Request):
    body = b'{"aliveworkers": 2}'

    def do_GET(self):
        self.answer(200, self.body)


@pytest.fixture
def master():
    with serving(ThreadingHTTPServer((LOOPBACK, 0), Master)) as server:
        yield server.server_port


@pytest.fixture(autouse=True)
def proxy(monkeypatch):
    """A proxy that doesn't answer."""
    monkeypatch.setenv("http_proxy", f"http://{LOOPBACK}:{free_port()}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)


@pytest.mark.parametrize("host", [LOOPBACK, "localhost"])
def test_the_preview_asks_this_machine_s_prometheus_directly(master, monkeypatch, host):
    monkeypatch.setattr(Master, "body", b'{"data": {"result": []}}')
    selection = Selection(start=NOW - timedelta(hours=1), stop=NOW)
    assert Prometheus(f"http://{host}:{master}").answer({"expr": "up"}, selection) == []


def test_the_cluster_s_master_is_asked_directly(master, monkeypatch, tmp_path):
    cluster = SparkCluster(tmp_path)
    cluster._ui = master
    assert cluster._alive_workers() == 2
    monkeypatch.setattr(Master, "body", b"<html>not yet</html>")
    assert cluster._alive_workers() == 0
