"""Class-data archives: recorded by a real JVM, used by the next."""

import subprocess

import pytest

from unskew.deploy.installation import class_data
from unskew.deploy.installation.jars import broker_jars
from unskew.deploy.installation.machine import find_java

pytestmark = pytest.mark.ci


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """A program on the broker's class path that is over at once; gives the lines of what it loads, and from where."""
    jars = ":".join(map(str, broker_jars()))  # before the data directory is another
    monkeypatch.setattr(class_data, "data_directory", lambda: tmp_path)
    class_data.archives_directory().mkdir()

    def run() -> list[str]:
        loaded = tmp_path / "loaded"
        command = [find_java().launcher, *class_data.jvm_options("broker"), f"-Xlog:class+load:file={loaded}"]
        subprocess.run([*command, "-cp", jars, "kafka.tools.StorageTool", "random-uuid"], check=True)
        return loaded.read_text().splitlines()

    return run


@pytest.mark.slow
def test_what_one_jvm_recorded_the_next_finds_in_its_archive(tool, monkeypatch):
    assert class_data.jvm_options("broker") == []
    monkeypatch.setenv(class_data.RECORD, "1")
    tool()
    monkeypatch.delenv(class_data.RECORD)
    assert class_data.jvm_options("broker") == []  # it isn't whole before somebody says so
    class_data.recording_path("broker").rename(class_data.archive_path("broker"))
    assert any(" kafka.tools.StorageTool source: shared objects file" in line for line in tool())


def test_each_java_and_all_programs_have_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr(class_data, "data_directory", lambda: tmp_path)
    monkeypatch.setattr(class_data, "description_hash", lambda: "other jars")
    assert len({class_data.archive_path(program) for program in class_data.PROGRAMS}) == len(class_data.PROGRAMS)
    others = class_data.archive_path("spark")
    monkeypatch.undo()
    assert others.name != class_data.archive_path("spark").name


def test_one_that_is_missing_is_missed(tmp_path, monkeypatch):
    monkeypatch.setattr(class_data, "data_directory", lambda: tmp_path)
    class_data.archives_directory().mkdir()
    for program in class_data.PROGRAMS:
        assert class_data.has_missing_archive()
        class_data.archive_path(program).touch()
    assert not class_data.has_missing_archive()


def test_a_file_that_is_no_archive_is_passed_over_in_silence(tool, capfd):
    class_data.archive_path("broker").write_text("nothing that a JVM can read")
    assert tool()
    assert "warning" not in "".join(capfd.readouterr()).lower()
