"""Prometheus as a process of ours, scraping a real exporter."""

import json

import pytest
from prometheus_client import CollectorRegistry, Counter, start_http_server

from tests.waiting import awaited
from unskew.errors import EnvironmentFault


@pytest.fixture
def exporter():
    registry = CollectorRegistry()
    counter = Counter("things", "Things", ["kind"], registry=registry)
    counter.labels("good").inc(7)
    server, thread = start_http_server(0, "127.0.0.1", registry)
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_samples_survive_kill_and_targets_appear_while_it_runs(prometheus, exporter, tmp_path):
    targets = tmp_path / "targets"
    server = prometheus(targets_from=targets, every=0.2)
    url = server.url
    assert server.query("things_total") == []
    file = targets / "one.json"
    file.write_text(json.dumps([{"targets": [exporter], "labels": {"place": "here"}}]))
    (found,) = awaited(lambda: server.query("things_total"))
    assert (found["metric"]["job"], found["metric"]["place"]) == ("unskew", "here")
    scraped = found["value"][0]
    file.unlink()
    server.kill()
    server.start()
    assert server.url == url
    assert awaited(lambda: server.query(f"things_total @ {scraped}"))


def test_what_prometheus_refuses_is_one_line(prometheus, tmp_path):
    rules = tmp_path / "rules.yml"
    rules.write_text("groups: 3")
    with pytest.raises(EnvironmentFault, match="Prometheus ended while starting") as fault:
        prometheus(rules=[rules])
    assert "\n" not in str(fault.value)


def test_a_bad_query_is_reported(prometheus):
    server = prometheus()
    with pytest.raises(OSError, match="parse error"):
        server.query("things_total{")
