import sys
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

from unskew.deploy.commands import doctor as doctor_module
from unskew.deploy.commands.doctor import doctor
from unskew.deploy.installation import requirements
from unskew.deploy.installation.jars import connector_jars
from unskew.deploy.servers.ports import free_port
from unskew.errors import EnvironmentFault


@pytest.fixture
def ask():
    app = typer.Typer()
    app.command()(doctor)

    def run(*arguments: str) -> tuple[int, dict[str, str]]:
        result = CliRunner().invoke(app, arguments)
        lines = [line for line in result.output.splitlines() if line[:2] in {"ok", "NO"}]
        return result.exit_code, {line.split()[1]: line for line in lines}

    return run


def test_a_machine_with_everything_is_well(ask):
    connector_jars()
    code, findings = ask()
    assert code == 0
    assert all(line.startswith("ok") for line in findings.values())
    assert sys.executable in findings["Python"]


def test_without_java_and_jars_it_says_what_to_do(ask, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("UNSKEW_HOME", str(tmp_path))
    code, findings = ask()
    assert code == 1
    assert {what for what, line in findings.items() if line.startswith("NO")} == {"Java", "JVM"}
    assert "make setup" in findings["JVM"]


def test_too_little_room(ask, monkeypatch):
    monkeypatch.setattr(requirements.shutil, "disk_usage", lambda path: SimpleNamespace(free=10**9))
    monkeypatch.setattr(doctor_module, "memory_gb", lambda: 0.5)
    code, findings = ask()
    assert code == 1
    assert findings["disk"].startswith("NO")
    assert findings["memory"].startswith("NO")
    with pytest.raises(EnvironmentFault, match=r"1\.0 GB are free on that disk and 3 are needed"):
        requirements.require_disk(requirements.Path.cwd())


@pytest.mark.kafka
def test_it_asks_the_broker(ask, kafka):
    code, findings = ask("--bootstrap-servers", kafka.bootstrap_servers)
    assert code == 0
    assert kafka.bootstrap_servers in findings["Kafka"]


def test_a_broker_that_does_not_answer(ask):
    code, findings = ask("--bootstrap-servers", f"127.0.0.1:{free_port()}")
    assert code == 1
    assert findings["Kafka"].startswith("NO")


@pytest.mark.parametrize("version", [(3, 10, 9), (3, 15, 0)])
def test_another_python_is_refused_with_the_range(monkeypatch, version):
    monkeypatch.setattr(requirements.sys, "version_info", version)
    with pytest.raises(EnvironmentFault, match=r"Python 3\.11 to 3\.14 is needed"):
        requirements.require_python()
