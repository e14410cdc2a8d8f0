import json
import sys
from importlib import metadata
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

from unskew.apps.cli import doctor as doctor_module
from unskew.apps.cli.doctor import doctor
from unskew.deploy.installation import machine
from unskew.deploy.installation.jars import connector_jars
from unskew.errors import EnvironmentFault
from unskew.loopback import free_port


@pytest.fixture
def run():
    app = typer.Typer()
    app.command()(doctor)

    def outcome(*arguments: str) -> tuple[int, dict[str, str]]:
        result = CliRunner().invoke(app, arguments)
        lines = [line for line in result.output.splitlines() if line[:2] in {"ok", "NO"}]
        return result.exit_code, {line.split()[1]: line for line in lines}

    return outcome


def test_a_machine_with_everything_is_well(run):
    connector_jars()
    code, findings = run()
    assert code == 0
    assert all(line.startswith("ok") for line in findings.values())
    assert sys.executable in findings["Python"]
    assert metadata.version("unskew") in findings["unskew"]


def test_as_json_and_a_java_home_that_leads_nowhere(monkeypatch, tmp_path):
    app = typer.Typer()
    app.command()(doctor)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    findings = {each["subject"]: each for each in json.loads(CliRunner().invoke(app, ["--json"]).output)}
    assert findings["Java"]["fine"]
    assert f"JAVA_HOME is {tmp_path}/nowhere" in findings["Java"]["advice"]


def test_without_java_and_jars_it_says_what_to_do(run, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("UNSKEW_HOME", str(tmp_path))
    code, findings = run()
    assert code == 1
    assert {what for what, line in findings.items() if line.startswith("NO")} == {"Java", "JVM"}
    assert "make setup" in findings["JVM"]


def test_too_little_room(run, monkeypatch):
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda path: SimpleNamespace(free=10**9))
    monkeypatch.setattr(doctor_module, "memory_gb", lambda: 0.5)
    code, findings = run()
    assert code == 1
    assert findings["disk"].startswith("NO")
    assert findings["memory"].startswith("NO")
    with pytest.raises(EnvironmentFault, match=r"1\.0 GB are free on that disk and 3 are needed"):
        machine.require_disk(machine.Path.cwd())


def test_it_reaches_the_broker(run, kafka):
    code, findings = run("--bootstrap-servers", kafka.bootstrap_servers)
    assert code == 0
    assert kafka.bootstrap_servers in findings["Kafka"]


@pytest.mark.usefixtures("impatient")
def test_a_broker_that_does_not_answer(run):
    code, findings = run("--bootstrap-servers", f"127.0.0.1:{free_port()}")
    assert code == 1
    assert findings["Kafka"].startswith("NO")
