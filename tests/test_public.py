"""What is made of the code is current, and what is added to it has its test."""

import os
import re
import subprocess
import sys
from difflib import unified_diff
from pathlib import Path

import unskew
from tests.public import PAGE, RENEW, SNAPSHOT, public, renew_metrics
from unskew import GROUPINGS
from unskew.dashboards import checked_in
from unskew.dashboards.grafana.generate import render_dashboards

TESTS = Path(__file__).with_name("grouping")
#: Only these need the Kafka client, or a Spark of their own.
NOT_THIN = {"Topology", "kafka_sink"}
#: These check every scheme alike.
OF_ALL = {"test_attacks.py", "test_batched.py", "test_contract.py"}


def test_what_a_change_needs_is_there():
    """All that is lacking, in one list."""
    there = SNAPSHOT.read_text(encoding="utf-8").splitlines()
    changed = [line for line in unified_diff(there, public(), lineterm="", n=0) if line[:3] not in {"---", "+++"}]
    stale = [line for line in changed if not line.startswith("@@")]
    text = PAGE.read_text(encoding="utf-8")
    stale += ["the list of metrics on docs/operations.md"] * (renew_metrics(text) != text)
    stale += checked_in.find_outdated(render_dashboards(), checked_in.FOLDER)
    lacking = [f"`{RENEW}` renews these; say in CHANGELOG.md what changes for users:", *stale] if stale else []
    tests = "".join(file.read_text(encoding="utf-8") for file in TESTS.rglob("test_*.py") if file.name not in OF_ALL)
    lacking += [
        f"{name} has no test in tests/grouping: write one against plain Python, from the paper"
        for name, scheme in GROUPINGS.items()
        if not re.search(rf"\b({name}|{scheme.__name__})\b", tests)
    ]
    assert not lacking, "\n".join(lacking)


def test_the_functions_that_errors_name_are_there():
    """An error may name a function of ours as its remedy."""
    rooms = [room.resolve() for room in Path(unskew.__file__).parent.iterdir() if room.is_dir()]  # most are links
    text = "".join(file.read_text(encoding="utf-8") for room in rooms for file in room.rglob("*.py"))
    named = {*re.findall(r"\bunskew\.(\w+)\(", text)}
    assert {"observed", "ship_to_executors"} <= named
    assert named <= {*unskew.__all__}


def test_the_library_is_imported_with_the_thin_client_of_spark_connect():
    """It has neither py4j nor pyspark's core. pyspark's own switch for its tests makes it treat this Spark as thin."""
    hidden = "import sys; sys.modules.update({'py4j': None, 'pyspark.core': None}); import unskew; "
    code = f"{hidden}[getattr(unskew, name) for name in {sorted({*unskew.__all__} - NOT_THIN)}]"
    environment = os.environ | {"SPARK_SKIP_CONNECT_COMPAT_TESTS": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
