"""Which processes the stack's Prometheus scrapes, without one."""

import os
from contextlib import ExitStack

from unskew.deploy.servers import stack
from unskew.deploy.servers.stack import scraped


def test_a_process_has_several_pages(monkeypatch, tmp_path):
    monkeypatch.setattr(stack, "running", lambda _: True)
    monkeypatch.setattr(stack, "targets", lambda: tmp_path)
    (tmp_path / "1.json").write_text("an earlier version's, of a process that lives")

    def listed():
        return sorted(path.name for path in tmp_path.glob("*.json"))

    with ExitStack() as first:
        first.enter_context(scraped(9400))
        with scraped(9401):
            first.close()
            assert listed() == ["1.json", f"{os.getpid()}-9401.json"]
            assert "127.0.0.1:9401" in (tmp_path / f"{os.getpid()}-9401.json").read_text()
    assert listed() == ["1.json"]
