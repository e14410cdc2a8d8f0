"""The wheel, which each test process builds once."""

import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests.wheel.environments import build

collect_ignore = ["job.py", "query.py"]  # not tests: users' programs


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    return build(tmp_path_factory.mktemp("wheel"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what each Spark can do, as the table of docs/compatibility.md."""
    found: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.stats.get(outcome, []):
            if named := re.search(r"test_sparks\.py::(\w+)\[([^-]+)-([^-\]]+)-?(\w*)", report.nodeid):
                test, version, mode, kind = named.groups()
                found[version, mode][kind or test.removeprefix("test_")].add(outcome)
    if not found:
        return
    parts = {
        "`balance`, `balanced_map`": ("static", "rows", "map"),
        "`keyed_map`": ("ids",),
        "by event time": ("sessions",),
        "`balanced_lookup`": ("named",),
        "joins of tables, of streams": ("joined", "paired"),
        "`balanced_write`": ("table",),
        "processes killed": ("kills",),
        "`unskew topology`": ("topology",),
        "`examples/sessions.py`": ("example",),
        "private names": ("names",),
    }
    terminalreporter.section("on which Spark")
    terminalreporter.line(f"| Spark | reached by | {' | '.join(parts)} |")
    terminalreporter.line("| --- | --- | " + " | ".join("---" for _ in parts) + " |")
    for (version, mode), kinds in found.items():
        outcomes = (set.union(*(kinds[kind] for kind in of)) for of in parts.values())
        cells = (", ".join(sorted(each)).replace("skipped", "not there") for each in outcomes)
        terminalreporter.line(f"| {version} | {mode} | {' | '.join(cells)} |")
