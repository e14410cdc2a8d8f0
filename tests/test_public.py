"""What is made of the code is current, and what is added to it has its test."""

import re
import warnings
from difflib import unified_diff
from pathlib import Path

from tests.public import PAGE, RENEW, SNAPSHOT, public, renew_metrics
from unskew import GROUPINGS
from unskew.dashboards import checked_in
from unskew.dashboards.grafana.generate import render_dashboards

TESTS = Path(__file__).with_name("grouping")
#: These check every scheme alike.
OF_ALL = {"test_attacks.py", "test_batched.py", "test_contract.py"}


def test_what_a_change_needs_is_there():
    """All that is lacking, in one list."""
    there = SNAPSHOT.read_text(encoding="utf-8").splitlines()
    changed = [line for line in unified_diff(there, public(), lineterm="", n=0) if line[:3] not in {"---", "+++"}]
    stale = [line for line in changed if not line.startswith("@@")]
    text = PAGE.read_text(encoding="utf-8")
    stale += ["the list of metrics on docs/operations.md"] * (renew_metrics(text) != text)
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # the SDK's builders warn of themselves
        stale += checked_in.find_outdated(render_dashboards(), checked_in.FOLDER)
    lacking = [f"`{RENEW}` renews these; say in CHANGELOG.md what changes for users:", *stale] if stale else []
    tests = "".join(file.read_text(encoding="utf-8") for file in TESTS.rglob("test_*.py") if file.name not in OF_ALL)
    lacking += [
        f"{name} has no test in tests/grouping: write one against plain Python, from the paper"
        for name, scheme in GROUPINGS.items()
        if not re.search(rf"\b({name}|{scheme.__name__})\b", tests)
    ]
    assert not lacking, "\n".join(lacking)
