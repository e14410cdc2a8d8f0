"""Real Ivy, on a Maven repository of one artifact in a directory: no network."""

import hashlib
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from xml.etree import ElementTree as ET

import pytest

from unskew.deploy.installation import jars
from unskew.deploy.installation.jars import ivy_settings
from unskew.errors import EnvironmentFault

DESCRIPTION = """<ivy-module version="2.0"><info organisation="test" module="jars"/>
<configurations><conf name="connector"/><conf name="broker"/></configurations>
<dependencies>
<dependency org="org.test" name="thing" rev="1.0" conf="connector->default;broker->default"/>
</dependencies></ivy-module>"""
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>org.test</groupId><artifactId>thing</artifactId><version>1.0</version></project>"""
KNOWN = hashlib.sha256(b"PK-something").hexdigest()


@pytest.fixture
def repository(tmp_path, monkeypatch):
    root = tmp_path / "repository"
    module = root / "org" / "test" / "thing" / "1.0"
    module.mkdir(parents=True)
    (module / "thing-1.0.pom").write_text(POM)
    (module / "thing-1.0.jar").write_bytes(b"PK-something")
    description = tmp_path / "ivy.xml"
    description.write_text(DESCRIPTION)
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="here"/><resolvers>'
        f'<ibiblio name="here" m2compatible="true" root="{root.as_uri()}"/></resolvers></ivysettings>'
    )
    sums = tmp_path / "jars.sha256"
    sums.write_text("".join(f"{KNOWN}  {configuration}/thing-1.0.jar\n" for configuration in ("broker", "connector")))
    monkeypatch.setattr(jars, "DESCRIPTION", description)
    monkeypatch.setattr(jars, "_SUMS", sums)
    monkeypatch.setenv("UNSKEW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("UNSKEW_IVYSETTINGS", str(settings))
    monkeypatch.delenv("UNSKEW_JARS", raising=False)
    return module


def test_jars_are_fetched_once_and_may_lie_where_nothing_can_be_written(repository, tmp_path, monkeypatch):
    monkeypatch.setenv("UNSKEW_JARS", str(tmp_path / "jars"))
    assert not jars.has_all_jars()
    (jar,) = jars.connector_jars()
    assert (jar.name, jar.read_bytes()) == ("thing-1.0.jar", b"PK-something")
    assert jar.is_relative_to(tmp_path / "jars")
    assert not (tmp_path / "home").exists()
    monkeypatch.setenv("UNSKEW_HOME", str(tmp_path / "elsewhere"))
    assert jars.has_all_jars()
    for file in repository.iterdir():
        file.unlink()
    assert jars.connector_jars() == [jar]
    assert [path.name for path in jars.broker_jars()] == ["thing-1.0.jar"]
    (tmp_path / "ivy.xml").write_text(f"{DESCRIPTION}<!-- another version -->")
    assert not jars.has_all_jars()


@pytest.mark.slow
def test_a_fetch_that_failed_leaves_nothing_and_the_next_repairs_it(repository):
    """Where there is no archive, and where it is another one."""
    archive = repository / "thing-1.0.jar"
    for wrong, says in (
        (None, r"cannot fetch the JVM jars .*the command again"),
        (b"PK-something else", r"thing-1\.0\.jar is not the archive .*ask who runs the server"),
    ):
        archive.unlink() if wrong is None else archive.write_bytes(wrong)
        with pytest.raises(EnvironmentFault, match=says) as fault:
            jars.broker_jars()
        assert "\n" not in str(fault.value)
        assert not jars.has_all_jars()
    archive.write_bytes(b"PK-something")
    assert len(jars.broker_jars()) == 1


def test_an_archive_that_was_changed_here_is_not_used(repository):
    (jar,) = jars.connector_jars()
    for name, content in (("other.jar", b"added"), (jar.name, b"changed"), (jar.name, None)):
        jar.with_name("other.jar").unlink(missing_ok=True)
        jar.unlink() if content is None else jar.with_name(name).write_bytes(content)
        with pytest.raises(EnvironmentFault, match=r"\.jar is not the archive .*; remove \S+, and they"):
            jars.connector_jars()
    assert len(jars.broker_jars()) == 1, "each is checked where it is used"


def test_the_image_asks_for_those_of_a_run_and_of_s3(repository, pytestconfig, monkeypatch):
    asked: list[str] = []
    monkeypatch.setattr(jars, "resolve_jars", lambda _, configuration, *more: asked.append(configuration) or [])
    [step] = re.findall(r'python -c "(.+)"\n', (pytestconfig.rootpath / "deploy" / "Dockerfile").read_text())
    exec(step)
    assert asked == ["connector", "s3a"]


def test_all_archives_have_a_hash(pytestconfig):
    rows = [line.split() for line in jars._SUMS.read_text().splitlines()]
    assert {name.split("/")[0] for _, name in rows} == {"broker", "connector", *jars._STORES}
    named = {
        f"{each.get('name')}-{each.get('rev')}.jar"
        for description in ("ivy.xml", *(f"{scheme}.xml" for scheme in jars._STORES))
        for each in ET.parse(pytestconfig.rootpath / "deploy" / "installation" / description).iterfind("*/dependency")
    }
    assert named <= {name.split("/")[1] for _, name in rows}


@pytest.fixture
def versions(repository):
    """Two versions of a connector: 1.0, which is pinned, and 1.1."""
    here = repository.parents[1] / f"{jars.SOURCE}0-10_2.13"
    for version in ("1.0", "1.1"):
        (here / version).mkdir(parents=True)
        name = f"{here.name}-{version}"
        pom = POM.replace("Id>thing", f"Id>{here.name}").replace("<version>1.0", f"<version>{version}")
        (here / version / f"{name}.pom").write_text(pom)
        with zipfile.ZipFile(here / version / f"{name}.jar", "w") as archive:
            archive.writestr("version", version)
    jars.DESCRIPTION.write_text(DESCRIPTION.replace('name="thing"', f'name="{here.name}"', 1))
    pinned = here / "1.0" / f"{here.name}-1.0.jar"
    digest = hashlib.sha256(pinned.read_bytes()).hexdigest()
    jars._SUMS.write_text("".join(f"{digest}  {conf}/{pinned.name}\n" for conf in ("broker", "connector")))
    return here


def test_the_connector_is_that_of_the_installed_pyspark(versions, monkeypatch):
    monkeypatch.setattr(jars, "_pyspark_version", lambda: "1.1")
    assert [path.name for path in jars.connector_jars()] == [f"{versions.name}-1.1.jar"]
    for file in (versions / "1.1").iterdir():
        file.unlink()
    assert [path.name for path in jars.connector_jars()] == [f"{versions.name}-1.1.jar"], "it is fetched once"
    monkeypatch.setattr(jars, "_pyspark_version", lambda: "1.0")
    assert [path.name for path in jars.connector_jars()] == [f"{versions.name}-1.0.jar"]
    monkeypatch.setattr(jars, "_pyspark_version", lambda: "1.2")
    with pytest.raises(EnvironmentFault, match=r"^pyspark 1\.2 is installed, and its .*pyspark==1\.0, which"):
        jars.connector_jars()


def test_vendors_pyspark_has_a_version(tmp_path, monkeypatch):
    monkeypatch.setattr(jars, "pyspark_home", lambda: tmp_path)
    for line in ('__version__: str = "4.1.4"', "__version__ = '4.1.4+vendor.3'"):
        (tmp_path / "version.py").write_text(f"{line}\n")
        assert jars._pyspark_version() == "4.1.4"


def test_the_connector_is_that_of_the_pinned_pyspark(pytestconfig):
    rows = ET.parse(pytestconfig.rootpath / "deploy" / "installation" / "ivy.xml").iterfind("*/dependency")
    [connector] = [row.get("rev") for row in rows if row.get("name", "").startswith("spark-sql-kafka-")]
    extras = tomllib.loads((pytestconfig.rootpath / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert f"pyspark=={connector}" in extras["app"]


def test_processes_that_fetch_at_the_same_time_agree(repository, tmp_path):
    code = (
        "import sys; from pathlib import Path; from unskew.deploy.installation import jars;"
        "jars.DESCRIPTION, jars._SUMS = map(Path, sys.argv[1:]); print(len(jars.broker_jars()))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "ivy.xml"), str(tmp_path / "jars.sha256")]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[0].strip() for process in processes] == ["1"] * 3


def test_offline_is_one_line_with_the_ways_out(tmp_path, monkeypatch):
    monkeypatch.setenv("UNSKEW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1 -Duser.home=/nonexistent")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(EnvironmentFault, match=r"Connection refused.*UNSKEW_IVYSETTINGS.*proxyHost") as fault:
        jars.connector_jars()
    assert "\n" not in str(fault.value)
    assert not jars.has_all_jars()


def test_a_home_that_cannot_be_written_to(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    (tmp_path / "closed").mkdir(mode=0o500)
    for name in ("file", "closed")[: 1 if os.geteuid() == 0 else 2]:  # root may write everywhere
        monkeypatch.setenv("UNSKEW_HOME", str(tmp_path / name))
        with pytest.raises(EnvironmentFault, match="UNSKEW_JARS"):
            jars.connector_jars()


def test_the_users_maven_mirror_is_respected(tmp_path, monkeypatch):
    monkeypatch.delenv("UNSKEW_IVYSETTINGS", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".m2").mkdir()
    for mirror_of, used in (
        *(("*", True), ("central", True), ("external:*,!inner", True)),
        *(("inner", False), ("*,!central", False)),
    ):
        (tmp_path / ".m2" / "settings.xml").write_text(
            '<settings xmlns="http://maven.apache.org/SETTINGS/1.2.0"><mirrors><mirror>'
            f"<mirrorOf>{mirror_of}</mirrorOf><url>file:///mirror?a&amp;b</url></mirror></mirrors></settings>"
        )
        settings = ivy_settings(tmp_path)
        assert (settings is not None and 'root="file:///mirror?a&amp;b"' in settings.read_text()) == used


def test_hadoops_version_is_pysparks(pytestconfig):
    (shipped,) = (jars.pyspark_home() / "jars").glob("hadoop-client-api-*.jar")
    version = shipped.stem.removeprefix("hadoop-client-api-")
    for name in ("deploy/installation/s3a.xml", "deploy/installation/abfs.xml", "tests/apps/stores/servers.xml"):
        named = ET.parse(pytestconfig.rootpath / name).iterfind("dependencies/dependency")
        assert {each.get("rev") for each in named if each.get("org") == "org.apache.hadoop"} == {version}
