"""What a machine must have: which Java and which Python will do."""

import os
from pathlib import Path

import pytest

from unskew.deploy.installation import machine
from unskew.deploy.installation.machine import find_java, require_python
from unskew.errors import EnvironmentFault


@pytest.fixture(autouse=True)
def no_java(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))


def fake_java(home: Path, version: str) -> Path:
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(
        "#!/bin/sh\n"
        f'echo "    java.home = {home}" >&2\n'
        f'echo "    java.specification.version = {version}" >&2\n'
        f'echo "    java.vendor = somebody" >&2\n'
    )
    launcher.chmod(0o755)
    return launcher


def test_a_wrong_java_is_named_with_its_version(tmp_path, monkeypatch):
    for version, feature in (("1.8", 8), ("11", 11), ("25", 25)):
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / version))
        fake_java(tmp_path / version, version)
        with pytest.raises(EnvironmentFault, match=f"is Java {feature};"):
            find_java()


def test_java_home_comes_first_and_the_path_counts_when_it_is_wrong(tmp_path, monkeypatch):
    fake_java(tmp_path / "old", "11")
    other = fake_java(tmp_path / "other", "21")
    launcher = fake_java(tmp_path / "jdk", "17")
    monkeypatch.setenv("PATH", str(tmp_path / "old" / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    java = find_java()
    assert (java.launcher, java.home, java.version) == (launcher, tmp_path / "jdk", 17)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    monkeypatch.setenv("PATH", f"{tmp_path}/nothing{os.pathsep}{other.parent}")
    assert find_java().launcher == other


def test_another_python_is_refused_with_the_range(monkeypatch):
    for version in ((3, 10, 9), (3, 15, 0)):
        monkeypatch.setattr(machine.sys, "version_info", version)
        with pytest.raises(EnvironmentFault, match=r"Python 3\.11 to 3\.14 is needed"):
            require_python()
