"""`unskew diagnose` over event logs of other versions of Spark, recorded anew: the causes, and what was predicted.

make nightly GROUP=sparks
"""

import subprocess

import pytest

from tests.apps.diagnosis.diagnoses import WAITING, WITHIN, compare_predictions, compare_work, require_true
from tests.apps.diagnosis.record_event_logs import QUERIES
from tests.waiting import PATIENCE
from tests.wheel.environments import ROOT
from tests.wheel.installed import Installed

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.nightly(group="sparks"), pytest.mark.takes(120)]


#: The query that a version can't run: in 4.0, applyInPandasWithState slices a batch of pyarrow's by a float.
WITHOUT = {"4.0.4": "stream-plain", "4.3.0": ""}


@pytest.mark.parametrize("version", WITHOUT)
def test_each_query_has_its_cause_and_the_prediction_holds(version, wheel, tmp_path):
    """The queries that wait for a service take as long on any machine. Of those that compute it is the CPU time."""
    spark = Installed.of(version, wheel)
    program = ROOT / "tests" / "apps" / "diagnosis" / "record_event_logs.py"
    command = [spark.folder / "bin" / "python", program, tmp_path / "recorded", "--codec", "zstd"]
    command += ["--only", ",".join(name for name in QUERIES if name != WITHOUT[version])]
    output = {"capture_output": True, "text": True}
    done = subprocess.run(command, cwd=tmp_path, env=spark.environment(), timeout=PATIENCE, check=False, **output)
    assert done.returncode == 0, done.stderr[-3_000:]
    logs = tmp_path / "recorded" / "logs"
    require_true(logs, without=WITHOUT[version])
    waiting = {name: ratio for name, ratio in compare_predictions(logs).items() if name in WAITING}
    ratios = waiting | compare_work(logs)
    assert {name: ratio for name, ratio in ratios.items() if abs(ratio - 1) > WITHIN} == {}, ratios
