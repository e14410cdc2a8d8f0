"""Class-data archives: recorded by a real JVM, used by the next."""

import subprocess

import pytest

from unskew.deploy.installation import class_data
from unskew.deploy.installation.jars import broker_jars
from unskew.deploy.installation.machine import find_java


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """A program on the broker's class path that is over at once; gives the lines of what it loads, and from where."""
    jars = ":".join(map(str, broker_jars()))  # before the data directory is another
    monkeypatch.setattr(class_data, "data_directory", lambda: tmp_path)
    class_data.folder().mkdir()

    def run() -> list[str]:
        loaded = tmp_path / "loaded"
        command = [find_java().launcher, *class_data.options("broker"), f"-Xlog:class+load:file={loaded}"]
        subprocess.run([*command, "-cp", jars, "kafka.tools.StorageTool", "random-uuid"], check=True)
        return loaded.read_text().splitlines()

    return run


@pytest.mark.slow
def test_what_one_jvm_recorded_the_next_finds_in_its_archive(tool, monkeypatch):
    assert class_data.options("broker") == []
    monkeypatch.setenv(class_data.RECORD, "1")
    tool()
    monkeypatch.delenv(class_data.RECORD)
    assert class_data.options("broker") == []  # it isn't whole before somebody says so
    class_data.recorded("broker").rename(class_data.archive("broker"))
    assert any(" kafka.tools.StorageTool source: shared objects file" in line for line in tool())


def test_each_java_and_all_programs_have_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr(class_data, "data_directory", lambda: tmp_path)
    monkeypatch.setattr(class_data, "identity", lambda: "other jars")
    assert len({class_data.archive(program) for program in class_data.PROGRAMS}) == len(class_data.PROGRAMS)
    others = class_data.archive("spark")
    monkeypatch.undo()
    assert others.name != class_data.archive("spark").name


def test_one_that_is_missing_is_missed(tmp_path, monkeypatch):
    monkeypatch.setattr(class_data, "data_directory", lambda: tmp_path)
    class_data.folder().mkdir()
    for program in class_data.PROGRAMS:
        assert class_data.missing()
        class_data.archive(program).touch()
    assert not class_data.missing()


def test_a_file_that_is_no_archive_is_passed_over_in_silence(tool, capfd):
    class_data.archive("broker").write_text("nothing that a JVM can read")
    assert tool()
    assert "warning" not in "".join(capfd.readouterr()).lower()
