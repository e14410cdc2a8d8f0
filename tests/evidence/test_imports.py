"""Every program of the evidence can be loaded, and is listed: none of them runs in the tests."""

import importlib
import pkgutil
from pathlib import Path

import evidence
from evidence.__main__ import ALONE, PROGRAMS


def modules() -> list[str]:
    return [each.name for each in pkgutil.walk_packages(evidence.__path__, "evidence.")]


def test_every_module_can_be_loaded(subtests):
    for name in modules():
        if not name.endswith("__main__"):
            with subtests.test(name):
                importlib.import_module(name)


def test_all_that_can_be_run_are_listed():
    folder = Path(evidence.__path__[0]).parent
    files = {name: folder / f"{name.replace('.', '/')}.py" for name in modules()}
    runnable = [name for name, file in files.items() if file.exists() and '__name__ == "__main__"' in file.read_text()]
    names = {name.removeprefix("evidence.").removesuffix(".__main__") for name in runnable} - {"__main__"}
    inner = {name for name in names if name.startswith(("engines.", "faults."))}  # what these programs start
    assert names - inner == (PROGRAMS.keys() | ALONE.keys()) - inner
