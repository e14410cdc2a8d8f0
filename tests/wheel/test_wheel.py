"""What a user gets who installs the wheel: one name, all files, on each kind of Spark beside code of theirs."""

import importlib
import json
import os
import shutil
import subprocess
import zipfile
from collections import Counter
from pathlib import Path

import pytest

import unskew
from tests.conftest import ONE_CONNECT, SHORT_LIVED
from tests.waiting import PATIENCE
from tests.wheel.environments import ROOT, Environment, kept
from unskew.deploy.installation.machine import find_java
from unskew.deploy.servers.spark_cluster import SECRET, SparkCluster

TRUTH = Counter("hot" if i % 5 else f"key {i % 40}" for i in range(3000))


@pytest.fixture(scope="module")
def library(wheel, tmp_path_factory) -> Environment:
    """The library without any extra, in an environment that has Spark."""
    return Environment.of(wheel, tmp_path_factory.mktemp("library"), (), ("pyspark[connect]",))


@pytest.fixture
def project(tmp_path) -> Path:
    """A user's folder, with packages that are called as folders of our repository are."""
    (tmp_path / "project" / "apps").mkdir(parents=True)
    (tmp_path / "project" / "apps" / "__init__.py").write_text("MINE = 'apps of the user'\n")
    (tmp_path / "project" / "deploy.py").write_text("MINE = 'deploy of the user'\n")
    shutil.copy(Path(__file__).with_name("job.py"), tmp_path / "project")
    return tmp_path / "project"


def run(command: list[str | Path], cwd: Path, **more: str) -> str:
    own = {"PATH": os.environ["PATH"], "HOME": str(cwd), "JAVA_HOME": str(find_java().home)}
    environment = {**kept(), **own, **more}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_adds_one_name_and_has_every_file(wheel):
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert {name.partition("/")[0] for name in packed} == {"unskew"}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    folders = {link.name for link in (ROOT / "src" / "unskew").iterdir() if link.is_symlink()}
    ours = {f"unskew/{file}" for file in tracked.splitlines() if file.partition("/")[0] in folders}
    ours |= {file.removeprefix("src/") for file in tracked.splitlines() if file.startswith("src/")}
    wanted = {file for file in ours if not file.endswith((".md", ".png")) and Path(file).name not in {*_FOR_DOCKER}}
    assert wanted - {f"unskew/{folder}" for folder in folders} <= packed
    assert "unskew/py.typed" in packed
    assert not [name for name in packed if "/programs/" in name or "go.mod" in name], "tools of the tests"


_FOR_DOCKER = ("Dockerfile", "Dockerfile.dockerignore", "requirements.lock")


def test_no_module_has_two_names(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    for name in ("apps", "producers", "grouping", "dashboards", "deploy"):
        with pytest.raises(ImportError, match=f"{name} is imported as unskew.{name}"):
            importlib.import_module(name)


def test_the_library_needs_neither_spark_nor_the_command(wheel, tmp_path):
    bare = Environment.of(wheel, tmp_path / "bare", ())
    printed = run(
        [bare.python, "-c", "import unskew; print(unskew.create('KEY', 4).route(['a', 'a']).tolist())"], tmp_path
    )
    first, second = json.loads(printed)
    assert first == second
    version = run([bare.python, "-c", "import unskew; print(unskew.__version__)"], tmp_path)
    assert f"unskew-{version.strip()}-" in wheel.name
    done = subprocess.run([bare.unskew, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("unskew: the command needs typer")
    assert "pip install 'unskew[app]'" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.ci
def test_public_names_are_had_without_the_command_s_packages(wheel, library, tmp_path):
    # README: `balance` where there is pyspark; `keyed_map` with what `unskew[keyed]` or `unskew[spark]` brings.
    with_spark = Environment.of(wheel, tmp_path / "spark", ("spark",))
    keyed = Environment.of(wheel, tmp_path / "keyed", ("keyed",), ("pyspark",))
    kafka = Environment.of(wheel, tmp_path / "kafka", ("kafka",), ("pyspark",))
    names = {*unskew.__all__} - {"Topology", "kafka_sink"}
    few = names - {"balanced_lookup", "keyed_map"}
    for environment, had in ((library, few), (keyed, names), (with_spark, names), (kafka, few | {"kafka_sink"})):
        run([environment.python, "-c", f"from unskew import {', '.join(sorted(had))}"], tmp_path)
    for name, extra in (("Topology", "unskew[app]"), ("kafka_sink", "unskew[kafka] and a pyspark")):
        asked = f"try:\n    from unskew import {name}\nexcept ImportError as e:\n    print(e)"
        said = run([with_spark.python, "-c", asked], tmp_path)
        assert said.startswith(f"unskew.{name} needs the packages of {extra}: there is no ")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.takes(30)
@pytest.mark.parametrize(
    "master",
    [
        *(pytest.param(name, marks=pytest.mark.nightly(group="documents")) for name in ("local[2]", "cluster")),
        pytest.param("connect", marks=[ONE_CONNECT, pytest.mark.ci]),
    ],
)
def test_a_stream_is_balanced_beside_the_users_own_packages(master, library, project, tmp_path):
    def job(address: str, conf: dict[str, str], **more: str) -> str:
        python = str(library.python)
        return run([python, "job.py", address, json.dumps(conf), tmp_path], project, PYSPARK_PYTHON=python, **more)

    if master == "cluster":
        with SparkCluster(tmp_path / "elsewhere", workers=2, memory_mb=512) as cluster:
            options = f"{SHORT_LIVED} {cluster.conf['spark.executor.extraJavaOptions']}"
            own = {"spark.pyspark.python": str(library.python), "spark.executor.extraJavaOptions": options}
            printed = job(cluster.master, cluster.conf | own, **{SECRET: os.environ[SECRET]})
    else:
        printed = job(master, {})
    found = json.loads(printed.splitlines()[-1])
    assert found["user"] == ["apps of the user", "deploy of the user"]
    assert (found["rows"], found["misplaced"], found["workers of the hot key"]) == (3000, 0, 2)
    assert found["static"] == [[True, 3000]]
    assert found["mapped"] == dict(TRUTH)
