"""The wheel alone in an empty environment: with the oldest and the newest packages that it takes."""

import subprocess
import sys
from pathlib import Path

import pytest

import unskew
from tests.waiting import PATIENCE
from tests.wheel.environments import UNREACHED

_PROGRAM = """
import unskew
for name in {names!r}:
    getattr(unskew, name)
for name in unskew.GROUPINGS:
    print(name, unskew.create(name, workers=4).route(["tr"] * 20, times=0, costs=1.0).tolist())
"""
#: What needs a pyspark, or an extra.
_MORE = {"Topology", "balance", "balanced_join", "balanced_lookup", "balanced_map", "balanced_write", "check_session"}
_MORE |= {"kafka_sink", "keyed_map", "observed", "spark_settings", "ship_to_executors", "watch"}


@pytest.mark.slow
@pytest.mark.nightly(group="documents")
@pytest.mark.takes(60)
@pytest.mark.parametrize("resolution", ["lowest-direct", "highest"])
def test_the_wheel_alone_is_imported_and_routes(resolution, wheel, tmp_path):
    python = tmp_path / "alone" / "bin" / "python"
    uv = Path(sys.executable).with_name("uv")
    for command in (
        (uv, "venv", "--quiet", "--python", sys.executable, tmp_path / "alone"),
        (uv, "pip", "install", "--quiet", "--python", python, "--resolution", resolution, wheel),
        (python, "-I", "-c", _PROGRAM.format(names=sorted({*unskew.__all__} - _MORE))),
    ):
        output = {"capture_output": True, "text": True}
        done = subprocess.run(command, cwd=tmp_path, timeout=PATIENCE, check=False, **output)
        if UNREACHED.search(done.stderr):
            pytest.skip(f"no package index is reachable: {done.stderr.strip().splitlines()[0]}")
        assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(unskew.GROUPINGS)
