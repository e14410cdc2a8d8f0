"""What executors get of our package: they start their Python from it, with the libraries and nothing else."""

import os
import pickle
import py_compile
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from tests.commands import printed_by
from tests.conftest import ONE_CONNECT
from tests.tiers import nightly
from unskew.apps.driver import python_processes, shipping
from unskew.apps.worker.stateful.config import KeyedOperatorConfig
from unskew.apps.worker.stateful.operator import MergerOperator, PandasOperator, WorkerOperator
from unskew.operators import Statistics
from unskew.spark.compat import explain_import

PRINT_FILES = (
    "import unskew.apps.driver.python_daemon as daemon, unskew; print(daemon.__file__, unskew.__file__, sep='\\n')"
)


def test_tasks_run_the_python_that_the_user_says_else_one_that_is_there(monkeypatch):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    executors, own = "spark.executorEnv.PYSPARK_PYTHON", "spark.pyspark.python"
    for master, conf, variable, chosen in (
        ("yarn", {}, None, "python3"),
        ("k8s://https://host:6443", {}, None, "python3"),
        ("k8s://https://host:6443", {}, "/opt/bin/python", "/opt/bin/python"),
        ("yarn", {executors: "python3.11"}, "/opt/bin/python", "python3.11"),
        ("yarn", {own: "./a", executors: "b"}, "c", "./a"),
        ("spark://host:7077", {}, None, sys.executable),
        ("spark://host:7077", {own: "/opt/bin/python"}, None, "/opt/bin/python"),
        ("local[2]", {}, None, python_processes.prepare_python()),
        ("local[2]", {own: "python3"}, None, "python3"),
    ):
        with monkeypatch.context() as patched:
            patched.setenv("PYSPARK_PYTHON", variable or "")
            assert python_processes.choose_task_python(master, conf) == chosen


def test_a_truncated_script_is_written_again(tmp_path, monkeypatch):
    monkeypatch.setattr(python_processes, "data_directory", lambda: tmp_path)
    script = Path(python_processes.prepare_python())
    whole = script.read_text()
    script.write_text(whole[:20])
    assert Path(python_processes.prepare_python()).read_text() == whole


def test_a_python_of_another_version_ends_before_it_imports_anything():
    other = os.environ | {"UNSKEW_PYTHON_VERSION": "3.7"}
    other["PYTHONPATH"] = os.pathsep.join(sys.path)
    command = [sys.executable, "-S", "-c", "import unskew.apps.driver.python_daemon"]
    done = subprocess.run(command, env=other, capture_output=True, text=True, check=False)
    own = ".".join(map(str, sys.version_info[:2]))
    assert (done.returncode, done.stderr) == (1, f"it is Python {own}, the driver's is 3.7\n")


WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, *_):
        if name in ("confluent_kafka", "orjson", "pandas"):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Missing())
import unskew.apps.driver.python_daemon
"""


def test_the_daemon_of_a_users_own_session_needs_only_what_the_library_needs():
    """A topology's executors that lack a package end before the first task."""
    own = {name: value for name, value in os.environ.items() if name != "UNSKEW_GROUPINGS"}
    own["PYTHONPATH"] = os.pathsep.join(sys.path)
    for more, says in (({}, ""), ({"UNSKEW_GROUPINGS": "KEY"}, "ModuleNotFoundError")):
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT], env=own | more, capture_output=True, text=True, check=False
        )
        assert (done.returncode != 0) == bool(says), done.stderr
        assert says in done.stderr


@pytest.mark.parametrize(
    ("compiled", "runs"), [("the source", ".pyc"), *nightly("clusters", ("another source", ".py"), ("nothing", ".py"))]
)
def test_a_python_runs_what_is_compiled_if_it_is_of_the_source(compiled, runs, tmp_path, monkeypatch):
    other = tmp_path / "other.py"
    other.touch()

    def cached(source):
        if compiled == "nothing":
            return str(tmp_path / "none")
        return py_compile.compile(source if compiled == "the source" else str(other), str(tmp_path / "compiled"))

    monkeypatch.setattr(shipping, "cache_from_source", cached)
    archive = shipping.write_archive(tmp_path)
    libraries = os.pathsep.join([str(archive), sysconfig.get_paths()["purelib"]])
    # -S: the files that put an editable checkout on the path are not read
    command, own = [sys.executable, "-S", "-c", PRINT_FILES], os.environ | {"PYTHONPATH": libraries}
    done = subprocess.run(command, env=own, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        f"{archive}/unskew/{name}{runs}" for name in ("apps/driver/python_daemon", "__init__")
    ]


#: A Python that has the libraries, and `unskew` only if somebody sends it.
LIBRARIES = """#!/bin/sh
exec env PYTHONPATH={libraries} {python} -S "$@"
"""
BALANCES = """
import sys
from pyspark.sql import SparkSession
import unskew
builder = SparkSession.builder.config("spark.ui.enabled", "false")
spark = (builder.remote("local[1]") if sys.argv[1] == "connect" else builder.master("local[1]")).getOrCreate()
rows = spark.range(100).selectExpr("cast(id % 7 as string) as user")
def balanced():
    return len(unskew.balance(rows, "user", 3, "KEY").collect())
try:
    balanced()
except Exception as error:
    print("refused:", "unskew.ship_to_executors(spark) sends it, or install it there" in str(error))
unskew.ship_to_executors(spark)
unskew.ship_to_executors(spark)
print("rows:", balanced())
spark.stop()
"""


@pytest.fixture
def bare(tmp_path):
    """The command of a Python without `unskew`."""
    script = tmp_path / "python"
    script.write_text(LIBRARIES.format(libraries=sysconfig.get_paths()["purelib"], python=sys.executable))
    script.chmod(0o755)
    return script


def loaded(bare, pickled, tmp_path):
    """The last line of what a Python without `unskew` says when it reads this."""
    (tmp_path / "pickled").write_bytes(pickled)
    load = f"import pickle, pathlib; pickle.loads(pathlib.Path({str(tmp_path / 'pickled')!r}).read_bytes())"
    done = subprocess.run([bare, "-c", load], cwd=tmp_path, capture_output=True, text=True, check=False)
    return done.stderr.splitlines()[-1]


def test_a_python_without_our_package_names_the_remedy(bare, tmp_path):
    """With it, the function is the same as before."""

    def doubled(batches):
        return (2 * batch for batch in batches)

    pickled = cloudpickle.dumps(explain_import(doubled))
    assert list(pickle.loads(pickled)([1, 2])) == [2, 4]
    said = "unskew.ship_to_executors(spark) sends it, or install it there"
    assert loaded(bare, pickled, tmp_path) == (
        f"ModuleNotFoundError: the executors' Python lacks the package unskew: {said}"
    )


@pytest.mark.parametrize("kind", [WorkerOperator, *nightly("keyed", MergerOperator, PandasOperator)])
def test_a_planning_python_without_our_package_names_the_remedy(kind, bare, tmp_path):
    program = KeyedOperatorConfig(Statistics("n"), pa.string(), 2, True, 2, False, None, None, None)
    operator = PandasOperator(WorkerOperator(program, [3, 5])) if kind is PandasOperator else kind(program, [3, 5])
    pickled = cloudpickle.dumps(operator)
    same = pickle.loads(pickled)
    assert type(same) is kind
    same, given = (getattr(each, "_operator", each) for each in (same, operator))
    assert vars(same) == vars(given)
    assert same._config.workers == 2
    said = "the Python of Spark's driver lacks the package unskew, by which keyed_map is planned: install it there"
    assert loaded(bare, pickled, tmp_path) == f"ModuleNotFoundError: {said}"


def test_one_archive_is_sent_however_often(monkeypatch):
    sent = []
    context = type("Context", (), {"addPyFile": lambda self, file: sent.append(file)})()
    monkeypatch.setattr(shipping, "_written", [])
    for _ in range(2):
        shipping.ship_to_executors(type("Session", (), {"sparkContext": context})())
    [file] = {*sent}
    assert file.endswith("/unskew.zip")
    assert {"unskew/__init__.py", "unskew/apps/library/balance.py"} <= {*zipfile.ZipFile(file).namelist()}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    "mode",
    [
        pytest.param("classic", marks=pytest.mark.ci),
        pytest.param("connect", marks=[ONE_CONNECT, pytest.mark.nightly(group="sparks")]),
    ],
)
def test_executors_get_our_package(mode, bare, tmp_path):
    printed = printed_by(BALANCES, tmp_path, mode, PYSPARK_PYTHON=str(bare))
    assert printed[-2:] == ["refused: True", "rows: 100"], printed
