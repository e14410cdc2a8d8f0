"""Which processes the stack's Prometheus scrapes, without one."""

import os
from contextlib import ExitStack

from unskew.deploy.servers import stack
from unskew.deploy.servers.stack import registered_target


def test_a_process_has_several_pages(monkeypatch, tmp_path):
    monkeypatch.setattr(stack, "find_server", lambda _: True)
    monkeypatch.setattr(stack, "targets_directory", lambda: tmp_path)

    def listed():
        return sorted(path.name for path in tmp_path.glob("*.json"))

    with ExitStack() as first:
        first.enter_context(registered_target(9400))
        with registered_target(9401):
            first.close()
            assert listed() == [f"{os.getpid()}-9401.json"]
            assert "127.0.0.1:9401" in (tmp_path / f"{os.getpid()}-9401.json").read_text()
    assert listed() == []


def test_targets_of_the_user_s_own_stay(monkeypatch, tmp_path):
    monkeypatch.setattr(stack, "find_server", lambda _: True)
    monkeypatch.setattr(stack, "targets_directory", lambda: tmp_path)
    for name in ("kafka-exporter", "9100", "mine-1"):
        (tmp_path / f"{name}.json").write_text("[]")
    with registered_target(9400):
        assert sorted(path.name for path in tmp_path.glob("*.json")) == sorted(
            [f"{os.getpid()}-9400.json", "9100.json", "kafka-exporter.json", "mine-1.json"]
        )
