"""Scripts in place of the servers' programs, and of the tools that get them."""

from pathlib import Path

import pytest

SAYS_VERSION = 'echo "InfluxDB {} (git: none)"'


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """Makes programs, the only ones on the PATH beside the shell's; the cache is empty."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(directory))
    for name in ("UNSKEW_INFLUXD", "UNSKEW_PROMETHEUS", "CC"):
        monkeypatch.delenv(name, raising=False)

    def make(name: str, script: str = "exit 0") -> Path:
        path = directory / name
        path.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
        path.chmod(0o755)
        return path

    return make
