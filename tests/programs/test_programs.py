"""Finding the servers' programs and getting them once.

The tools that get them (Go, cargo, apt) are stand-ins here; `make servers` uses the real ones in CI.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs.influxd import influxd
from tests.programs.prometheus import prometheus_programs
from tests.programs.stand_ins import CARGO, GO, SAYS_VERSION, tools  # noqa: F401
from tests.waiting import PATIENCE, awaited, gone
from unskew.deploy.servers import influxdb as stack_influxdb
from unskew.deploy.servers import prometheus as stack_prometheus
from unskew.errors import EnvironmentFault


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


def test_what_the_stack_lacks_is_said_and_not_made(tools, tmp_path):
    for name, script in {"go": GO, "cargo": CARGO, "cc": "exit 0", "apt-get": "", "dpkg-deb": ""}.items():
        tools(name, script)
    with pytest.raises(EnvironmentFault, match=r"an influxd of InfluxDB 2\.7 on the PATH .*`make servers` makes one"):
        stack_influxdb.influxd()
    with pytest.raises(EnvironmentFault, match=r"`sudo apt-get install prometheus`.*`make servers` fetches it"):
        stack_prometheus.prometheus_programs()
    assert not (tmp_path / "runs").exists()


def test_what_is_built_is_what_the_stack_looks_for():
    description = Path(__file__).with_name("go.mod").read_text()
    assert f"require github.com/influxdata/influxdb/v2 v{stack_influxdb.VERSION}\n" in description


def test_processes_that_need_it_at_once_build_it_once(tools, tmp_path):
    for name, script in {"go": GO, "cargo": CARGO, "cc": "exit 0"}.items():
        tools(name, script)
    killed = tmp_path / "cache" / "unskew" / "influxd" / "making-something"
    killed.mkdir(parents=True)
    code = "from tests.programs.influxd import influxd; print(influxd())"
    running = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    printed = {process.communicate(timeout=PATIENCE)[0] for process in running}
    assert [process.returncode for process in running] == [0, 0, 0]
    (program,) = printed
    assert Path(program.strip()).read_text() == "built\n"
    source = f"{tmp_path}/flux source/libflux"
    steps = ["go mod", "go list", "cargo rustc", f"{source}/Cargo.toml", "go build"]
    assert (tmp_path / "runs").read_text().splitlines() == steps
    headers, library, *_ = shlex.split((tmp_path / "flags").read_text())
    assert headers == f"-I{source}/include"
    assert Path(library.removeprefix("-L")).parent.parent.parent == killed.parent
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


def test_a_build_beside_a_process_ends_with_it_and_its_compilers_too(tools, tmp_path):
    for name in ("cargo", "cc", "prometheus", "promtool"):
        tools(name)
    tools("go", 'echo $$ > "$TMPDIR/pid"; exec sleep 300')
    with subprocess.Popen(["/bin/sleep", "300"]) as lives:
        command = [sys.executable, "-m", "tests.programs", "--beside", str(lives.pid)]
        builder = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        compiler = int(awaited(lambda: (tmp_path / "pid").is_file() and (tmp_path / "pid").read_text()))
        assert os.getpriority(os.PRIO_PROCESS, compiler) > os.getpriority(os.PRIO_PROCESS, 0)
        lives.kill()
    assert builder.wait(PATIENCE) != 0
    assert gone(compiler)


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
