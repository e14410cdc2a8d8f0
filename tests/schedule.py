"""How the tests are spread over processes: how many processes, which tests share one, and which begin first.

A plugin of pytest. It reads marks of the tests, which pyproject.toml lists, and no names of files:

* `xdist_group(name)`: the tests of a group run in one process, as they share servers that take long to start. Tests
  without this mark are grouped by their file. The files whose tests use the fixture `spark` share a session in each
  process: they form as many groups as there are processes, which take about the same time.
* `takes(seconds)`: about how long a test takes. The groups that take longest begin first, so that no process is left
  with a long one at the end.

pytest-xdist's own `--dist loadgroup` does nothing under this version of pytest, and says nothing: it renames tests by
an attribute that there is no more. So the processes note their tests' groups in a file, which the scheduler reads.
"""

import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from unskew.deploy.installation.machine import available_cores, memory_gb

#: What a process needs, at most: pytest, Spark's driver and its Python workers, a broker (GB).
_MEMORY_GB = 2.5
_FILES = 15  # that the end of a run names
#: Seconds that a test takes about, by its marks; a test without any of them is fast.
_TAKES = {"spark": 5.0, "slow": 3.0, "kafka": 0.5}
_FAST = 0.05
#: Fixtures that are programs which `make servers` gets.
_SERVERS = {"influxd_program", "prometheus_program"}
_GROUPS = pytest.StashKey[Path]()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """How many processes `-n auto` means: three for two cores, as much of a test is waiting, or what memory allows.

    `$PYTEST_XDIST_AUTO_NUM_WORKERS` and `-n NUMBER` override it.
    """
    if given := os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return int(given)
    return processes(_cores(), _memory_gb())


def processes(cores: float, memory: float | None) -> int:
    """As many processes as cores and memory (GB; None: unknown) allow; one at the least."""
    by_cores = max(1, int(1.5 * cores))
    return by_cores if memory is None else max(1, min(by_cores, int(memory / _MEMORY_GB)))


def _cores() -> float:
    """The cores that this process may use; a container may have a share of the machine's."""
    there = available_cores()
    quota = _limit("cpu.max")  # microseconds, in so many microseconds
    return there if quota is None else min(there, quota[0] / quota[1])


def _memory_gb() -> float | None:
    """The memory that programs can still have; None where the system doesn't say."""
    free, most = memory_gb(), _limit("memory.max")
    return min((each for each in (free, most and most[0] / 1e9) if each is not None), default=None)


def _limit(file: str) -> list[float] | None:
    """The numbers in this container's limit, in a file of Linux' control groups; None where there is no limit."""
    try:
        return [float(word) for word in (Path("/sys/fs/cgroup") / file).read_text().split()]
    except (OSError, ValueError):  # no such file; "max"
        return None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a process where to note its tests' groups."""
    node.workerinput["groups"] = str(_groups_file(node.config))


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reports that the process has collected its tests
def pytest_collection_finish(session: pytest.Session) -> None:
    """Note the groups; all processes write the same."""
    if file := getattr(session.config, "workerinput", {}).get("groups"):
        Path(file).write_text(json.dumps({item.nodeid: group_of(item) for item in session.items}))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Run a group's tests in one process, the groups in the order of `pytest_collection_modifyitems`."""

    @cache  # it is called after all processes have collected their tests
    def groups() -> dict[str, str]:
        return json.loads(_groups_file(config).read_text())

    config.option.loadscopereorder = False
    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = lambda nodeid: groups()[nodeid]
    return scheduler


def _groups_file(config: pytest.Config) -> Path:
    if _GROUPS not in config.stash:
        folder = tempfile.TemporaryDirectory(prefix="unskew-tests-")
        config.add_cleanup(folder.cleanup)
        config.stash[_GROUPS] = Path(folder.name) / "groups.json"
    return config.stash[_GROUPS]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Mark tests before pytest selects by marks; group the selected ones, and put the longest groups first."""
    _mark(items)
    yield
    _group(items, getattr(config, "workerinput", {}).get("workercount", 1))
    groups: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        groups[group_of(item)].append(item)
    items[:] = [item for members in sorted(groups.values(), key=_seconds, reverse=True) for item in members]


def _mark(items: list[pytest.Item]) -> None:
    """Mark what uses the fixtures `spark` and `kafka`, and what needs InfluxDB or Prometheus."""
    for item in items:
        for name in ("spark", "kafka"):
            if _uses(item, {name}):
                item.add_marker(name)
        if _uses(item, _SERVERS):
            item.add_marker("programs")
            item.add_marker("slow")


def _group(items: list[pytest.Item], processes: int) -> None:
    """Give a group to each test that has none."""
    files: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            files[item.nodeid.partition("::")[0]].append(item)
    shared = [file for file, members in files.items() if any(_uses(item, {"spark"}) for item in members)]
    groups = spread({file: _seconds(files[file]) for file in shared}, processes)
    for file, members in files.items():
        for item in members:
            item.add_marker(pytest.mark.xdist_group(groups.get(file, file)))


def spread(seconds: dict[str, float], processes: int) -> dict[str, str]:
    """The group of each file that shares Spark sessions: the longest file first, into the group that takes least."""
    groups: dict[str, str] = {}
    taken = [0.0] * processes
    for file in sorted(seconds, key=seconds.__getitem__, reverse=True):
        least = taken.index(min(taken))
        taken[least] += seconds[file]
        groups[file] = f"spark {least}"
    return groups


def _uses(item: pytest.Item, fixtures: set[str]) -> bool:
    return not fixtures.isdisjoint(getattr(item, "fixturenames", ()))


def group_of(item: pytest.Item) -> str:
    """The name of the test's group."""
    mark = item.get_closest_marker("xdist_group")
    assert mark is not None
    return mark.args[0]


def _seconds(members: list[pytest.Item]) -> float:
    return sum(map(_takes, members))


def _takes(item: pytest.Item) -> float:
    if given := item.get_closest_marker("takes"):
        return given.args[0]
    return max((seconds for mark, seconds in _TAKES.items() if item.get_closest_marker(mark)), default=_FAST)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say which files took longest, all their tests together, with what they share."""
    spent: dict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.SubtestReport):
                continue  # its test's time has it, too
            spent[getattr(report, "nodeid", "").partition("::")[0]] += getattr(report, "duration", 0.0)
    longest = sorted(spent.items(), key=lambda each: -each[1])[:_FILES]
    terminalreporter.section(f"slowest {len(longest)} files, of {sum(spent.values()):.0f}s in all")
    for file, seconds in longest:
        terminalreporter.write_line(f"{seconds:.0f}s {file}")
