"""Every program of the evidence can be loaded, and says what it measures: none of them runs in the tests."""

import importlib
import pkgutil

import evidence
from evidence.__main__ import ALONE, find_programs


def modules() -> list[str]:
    return [each.name for each in pkgutil.walk_packages(evidence.__path__, "evidence.")]


def test_every_module_can_be_loaded(subtests):
    for name in modules():
        if not name.endswith("__main__"):
            with subtests.test(name):
                importlib.import_module(name)


def test_programs_say_what_they_measure():
    found = find_programs()
    assert {*ALONE, "balance.caps", "faults.alerts", "speed.state"} <= found.keys()
    assert not {"engines.flink.program", "faults.proxy"} & found.keys()
    assert all(found.values())
