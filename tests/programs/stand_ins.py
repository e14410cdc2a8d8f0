"""Stand-ins for the tools that get the servers' programs: Go, cargo, apt."""

from pathlib import Path

import pytest

SAYS_VERSION = 'echo "InfluxDB {} (git: none)"'
# As Go and cargo do: count their runs, take their time; Go asks pkg-config for Flux, which cargo has made.
GO = """
echo "go $1" >> "$TMPDIR/runs"
case "$1" in
mod) exit 0 ;;
list) echo "$TMPDIR/flux source"; exit 0 ;;
esac
"$PKG_CONFIG" --cflags -- flux > "$TMPDIR/flags" && "$PKG_CONFIG" --libs -- flux >> "$TMPDIR/flags"
while [ "$1" != -o ]; do shift; done
sleep 0.3
echo github.com/some/package
mkdir -p "$(dirname "$2")" && echo built > "$2"
"""
CARGO = """
echo "cargo $1" >> "$TMPDIR/runs"
while [ "$1" != --manifest-path ]; do shift; done
echo "$2" >> "$TMPDIR/runs"
"""


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
