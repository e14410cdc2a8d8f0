"""Finding the servers' programs and getting them once; the tools that get them are stand-ins here, real ones in CI."""

import subprocess
import sys
from pathlib import Path

import pytest

from unskew.deploy.installation.programs.influxd import influxd
from unskew.deploy.installation.programs.prometheus import prometheus_programs
from unskew.errors import EnvironmentFault

SAYS_VERSION = 'echo "InfluxDB {} (git: none)"'
# As `go build -o FILE`: counts its runs, takes its time.
BUILDS = """
echo run >> "$TMPDIR/runs"
while [ "$1" != -o ]; do shift; done
sleep 0.3
echo github.com/some/package
mkdir -p "$(dirname "$2")" && echo built > "$2"
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


def test_influxd_of_version_2_is_found_and_of_version_1_is_not(tools, monkeypatch):
    old = tools("influxd", SAYS_VERSION.format("v1.8.10"))
    with pytest.raises(EnvironmentFault, match=r"Go 1\.24 or later and Rust's cargo and a C compiler"):
        influxd()
    monkeypatch.setenv("UNSKEW_INFLUXD", str(old))
    with pytest.raises(EnvironmentFault, match="no influxd of InfluxDB 2"):
        influxd()
    monkeypatch.delenv("UNSKEW_INFLUXD")
    new = tools("influxd", SAYS_VERSION.format("v2.7.12"))
    assert influxd() == new
    elsewhere = new.rename(new.with_name("other"))
    monkeypatch.setenv("UNSKEW_INFLUXD", str(elsewhere))
    assert influxd() == elsewhere


def test_what_the_build_lacks_is_named(tools):
    tools("go")
    tools("cc")
    with pytest.raises(EnvironmentFault, match=r"needs Rust's cargo: install that.*UNSKEW_INFLUXD"):
        influxd()


def test_processes_that_need_it_at_once_build_it_once(tools, tmp_path):
    for name, script in {"go": BUILDS, "cargo": "exit 0", "cc": "exit 0"}.items():
        tools(name, script)
    killed = tmp_path / "cache" / "unskew" / "influxd" / "making-something"
    killed.mkdir(parents=True)
    code = "from unskew.deploy.installation.programs.influxd import influxd; print(influxd())"
    running = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = {process.communicate(timeout=120)[0] for process in running}
    assert [process.returncode for process in running] == [0, 0, 0]
    (program,) = said
    assert Path(program.strip()).read_text() == "built\n"
    assert (tmp_path / "runs").read_text().count("run") == 2  # pkg-config and influxd
    assert influxd() == Path(program.strip())
    assert not list(killed.parent.glob("making-*"))


def test_a_build_that_fails_says_why_and_leaves_nothing(tools, tmp_path):
    for name in ("cargo", "cc"):
        tools(name)
    tools("go", "echo some/package; echo 'error: linker not found'; exit 1")
    with pytest.raises(EnvironmentFault, match=r"error: linker not found \(log: .*build\.log\)") as fault:
        influxd()
    assert "\n" not in str(fault.value)
    assert sorted(path.name for path in (tmp_path / "cache" / "unskew" / "influxd").iterdir()) == [
        "build.lock",
        "build.log",
    ]


def test_prometheus_is_found(tools, monkeypatch):
    server = tools("prometheus")
    with pytest.raises(EnvironmentFault, match="no apt-get to fetch it; install Prometheus"):
        prometheus_programs()  # promtool is missing
    tool = tools("promtool")
    found = prometheus_programs()
    assert (found.prometheus, found.promtool, found.pages) == (server, tool, None)
    monkeypatch.setenv("UNSKEW_PROMETHEUS", str(server.with_name("nothing")))
    with pytest.raises(EnvironmentFault, match="UNSKEW_PROMETHEUS"):
        prometheus_programs()


def test_a_package_that_apt_cannot_fetch_says_why(tools, tmp_path):
    tools("dpkg-deb")
    tools("apt-get", "echo 'E: Unable to locate package prometheus'; exit 100")
    with pytest.raises(EnvironmentFault, match=r"Unable to locate package prometheus .*; install Prometheus"):
        prometheus_programs()
    assert not (tmp_path / "cache" / "unskew" / "debian" / "prometheus").exists()
