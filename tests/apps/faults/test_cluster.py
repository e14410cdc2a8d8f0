"""CLUSTER mode on a real Spark standalone cluster of two workers, and executors that die."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.apps.clusters import cluster, conf_of, options, program  # noqa: F401  fixtures
from tests.commands import UNSKEW
from tests.harness.topology import check, launch, truth  # noqa: F401  fixtures
from tests.waiting import PATIENCE
from unskew.grouping import get_grouping
from unskew.kafka.topics import ensure_topic

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka, pytest.mark.xdist_group("cluster")]


@pytest.mark.nightly(group="kills")
def test_a_checkpoint_that_only_the_driver_sees(connection, topic, tmp_path, options):
    ensure_topic(connection, topic, 2)
    own = "/proc/self/cwd/checkpoint"  # for each process another folder
    done = topology(connection, topic, tmp_path, *options, checkpoint=own)
    assert done.returncode == 2, done.stderr
    assert f"the checkpoint file:{own} is not seen by executors on" in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


#: Spark starts a second attempt of a task that takes a little longer than the others.
SPECULATIVE = {"": "true", ".interval": "20ms", ".quantile": "0.3", ".multiplier": "1.1", ".minTaskRuntime": "1ms"}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("grouping", "kills"),
    [
        pytest.param("SHUFFLE", 1, marks=pytest.mark.takes(60)),
        pytest.param("SHUFFLE", 20, marks=[pytest.mark.nightly(group="kills"), pytest.mark.takes(150)]),
        pytest.param("PLANNED", 10, marks=[pytest.mark.nightly(group="kills"), pytest.mark.takes(120)]),
    ],
)
def test_executors_are_killed_at_any_moment(
    connection, topic, tmp_path, truth, launch, options, cluster, grouping, kills
):
    # Round robin: a source that forgot its turn would send nearly all its tuples elsewhere. With plans, two attempts of
    # a source ask for its quotas. There are many more batches than kills: an executor takes some of them to come back.
    if grouping == "PLANNED":
        options += [f"--conf=spark.speculation{name}={value}" for name, value in SPECULATIVE.items()]
    topology = launch(grouping, *options, "--max-tuples", "100" if kills > 1 else "2000", mode="CLUSTER")
    rng = random.Random(10)
    hit: set[int] = set()
    while topology.process.poll() is None and len(hit) < kills:
        time.sleep(rng.random())
        running = cluster.executors()
        planned = [int(file.name) for file in (tmp_path / "checkpoint" / "offsets").glob("[0-9]*")]
        batch = max(planned, default=0)
        # The other executor still has its half of what was shuffled.
        if len(running) == 2 and batch and batch not in hit:
            os.kill(rng.choice(running), signal.SIGKILL)
            hit.add(batch)
    assert len(hit) == kills, topology.log.read_text()
    if kills > 1:
        topology.process.send_signal(signal.SIGTERM)  # the rest in larger batches
        assert topology.process.wait(PATIENCE) == 0
        topology = launch(grouping, *options, mode="CLUSTER")
    topology.await_end()
    check(connection, topic, get_grouping(grouping).short, truth)
    assert (tmp_path / "was-run").exists(), "the executors ran another Python than the one of the settings"


#: What is said of a Python at executors that can't run tasks.
OF_ANOTHER_VERSION = "import runpy, sys; sys.version_info = (3, 99); runpy.run_module(sys.argv[2], run_name='__main__')"
CANNOT = {
    "another version": (
        [f'exec {sys.executable} -c "{OF_ANOTHER_VERSION}" "$@"'],
        "it is Python 3.99, the driver's is",
    ),
    "no libraries": ([f'exec {sys.executable} -S "$@"'], "ModuleNotFoundError: No module named 'numpy'"),
    "no program": ([], "No such file or directory"),
}


@pytest.mark.nightly(group="kills")
@pytest.mark.takes(15)
@pytest.mark.parametrize("kind", CANNOT)
def test_an_executors_python_that_cannot_run_tasks(connection, topic, tmp_path, cluster, kind):
    ensure_topic(connection, topic, 2)
    lines, said = CANNOT[kind]
    python = program(tmp_path / "python", *lines) if lines else tmp_path / "python"
    done = topology(connection, topic, tmp_path, *conf_of(cluster, python))
    assert done.returncode == 1, done.stderr
    error = " ".join(done.stderr.split())
    assert f"executors can't run tasks by their Python, {python} (" in error
    assert said in error
    assert "it must be Python" in error
    assert "Traceback" not in error


@pytest.mark.nightly(group="kills")
@pytest.mark.takes(15)
def test_states_need_the_executors_python_at_the_driver_too(connection, topic, tmp_path, cluster):
    ensure_topic(connection, topic, 2)
    work = ["--work", "unskew.operators:Sessions", "--work-option", "gap=1"]
    done = topology(connection, topic, tmp_path, *conf_of(cluster, Path("./environment/bin/python")), *work)
    assert done.returncode == 2, done.stderr
    assert "on the driver's machine, and it isn't there; valid:" in " ".join(done.stderr.split())


def topology(connection, topic, folder, *more, checkpoint="c"):
    """The command's end."""
    command = [*UNSKEW, "topology", "CLUSTER", "COUNTRY_SKEW_R80", "KEY", topic, "2", "4", "x0"]
    command += ["--checkpoint", folder / checkpoint, "--bootstrap-servers", connection.bootstrap_servers, *more]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)
