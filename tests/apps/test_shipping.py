"""What executors get of our package: they start their Python from it, with the libraries and nothing else."""

import os
import py_compile
import subprocess
import sys
import sysconfig

import pytest

from unskew.apps.run import shipping

SAYS = "import unskew.apps.run.daemon as daemon, unskew; print(daemon.__file__, unskew.__file__, sep='\\n')"


def test_behind_nothing_but_what_the_user_gives():
    assert shipping.path({}) == {"spark.executorEnv.PYTHONPATH": "unskew.zip"}
    given = {"spark.executorEnv.PYTHONPATH": "a:b"}
    assert shipping.path(given) == {"spark.executorEnv.PYTHONPATH": os.pathsep.join(["unskew.zip", "a:b"])}


@pytest.mark.parametrize(("compiled", "runs"), [("it", ".pyc"), ("another source", ".py"), ("nothing", ".py")])
def test_a_python_runs_what_is_compiled_if_it_is_of_the_source(compiled, runs, tmp_path, monkeypatch):
    other = tmp_path / "other.py"
    other.touch()

    def cached(source):
        if compiled == "nothing":
            return str(tmp_path / "none")
        return py_compile.compile(source if compiled == "it" else str(other), str(tmp_path / "compiled"))

    monkeypatch.setattr(shipping, "cache_from_source", cached)
    archive = shipping.pack(tmp_path)
    libraries = os.pathsep.join([str(archive), sysconfig.get_paths()["purelib"]])
    # -S: the files that put an editable checkout on the path are not read
    done = subprocess.run(
        [sys.executable, "-S", "-c", SAYS],
        env=os.environ | {"PYTHONPATH": libraries}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == [f"{archive}/unskew/{name}{runs}" for name in ("apps/run/daemon", "__init__")]
