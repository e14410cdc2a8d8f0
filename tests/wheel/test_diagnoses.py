"""`unskew diagnose` over event logs of other versions of Spark, recorded anew: the causes, and what was predicted.

make nightly GROUP=sparks
"""

import subprocess

import pytest

from tests.apps.diagnosis.diagnoses import WITHIN, compare_predictions, require_true
from tests.waiting import PATIENCE
from tests.wheel.environments import ROOT
from tests.wheel.installed import Installed

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.nightly(group="sparks"), pytest.mark.takes(120)]


@pytest.mark.parametrize("version", ["4.0.4", "4.3.0"])
def test_each_query_has_its_cause_and_the_prediction_holds(version, wheel, tmp_path):
    """The queries that wait for a service take as long on any machine; a busy one compiles and writes for longer."""
    spark = Installed.of(version, wheel)
    program = ROOT / "tests" / "apps" / "diagnosis" / "record_event_logs.py"
    command = [spark.folder / "bin" / "python", program, tmp_path / "recorded", "--codec", "zstd"]
    output = {"capture_output": True, "text": True}
    done = subprocess.run(command, cwd=tmp_path, env=spark.environment(), timeout=PATIENCE, check=False, **output)
    assert done.returncode == 0, done.stderr[-3_000:]
    logs = tmp_path / "recorded" / "logs"
    require_true(logs)
    ratios = compare_predictions(logs)
    assert {*ratios} == {"group", "join", "write", "stream"}
    waiting = {name: ratios[name] for name in ("group", "stream")}
    assert {name: ratio for name, ratio in waiting.items() if abs(ratio - 1) > WITHIN} == {}, ratios
