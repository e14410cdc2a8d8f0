"""The wheel alone in an empty environment: with the oldest and the newest packages that it takes."""

import subprocess
import sys

import pytest

import unskew
from tests.waiting import PATIENCE
from tests.wheel.environments import uv

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
    for arguments in (
        ("venv", "--quiet", "--python", sys.executable, tmp_path / "alone"),
        ("pip", "install", "--quiet", "--python", python, "--resolution", resolution, wheel),
    ):
        done = uv(*arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    command = [python, "-I", "-c", _PROGRAM.format(names=sorted({*unskew.__all__} - _MORE))]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(unskew.GROUPINGS)
