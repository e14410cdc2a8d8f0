"""Set-up compiles all that routing needs: a kernel compiled later, for other types, would stall the first batches."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numba.core.dispatcher import Dispatcher

from tests.grouping.skewed import skewed
from unskew import grouping
from unskew.grouping import GROUPINGS, compile_all, create, encode_keys

pytestmark = pytest.mark.ci


def compiled():
    return {
        f"{module_name}.{name}": len(kernel.signatures)
        for module_name, module in list(sys.modules.items())
        if module_name.startswith(grouping.__name__)
        for name, kernel in vars(module).items()
        if isinstance(kernel, Dispatcher)
    }


def test_compile_all_leaves_nothing_to_compile():
    compile_all()
    before = compiled()
    assert len(before) > 50
    stream = skewed(500)
    strings = pa.array(stream.keys)
    for name in GROUPINGS:
        for keys in (stream.keys, strings, strings.dictionary_encode(), np.arange(500), np.arange(500, dtype=np.int32)):
            for workers in (1, 2, 10):
                for times, costs in ((stream.times, stream.costs), (5, 2), (np.repeat(stream.times, 2)[::2], 0.5)):
                    first, second = create(name, workers), create(name, workers)
                    first.fit(keys)
                    first.route(keys, times=times, costs=costs)
                    second.load(first.save())
                    second.route(keys, times=times, costs=costs)
    assert compiled() == before


def test_compile_all_leaves_nothing_of_a_loop_to_compile():
    compile_all()
    before = compiled()
    assert len(before) > len(GROUPINGS)
    keys = encode_keys(np.resize(["a", "b", "c", "a"], 5_000))
    for name in GROUPINGS:
        router = create(name, 4)
        controller, monitor = router.controller(), router.monitor()
        for _ in range(4 * (controller is not None)):
            routes = router.route(keys)
            if monitor is not None:
                monitor.observe(keys, np.linspace(1.0, 2.0, len(keys)))
            report = monitor.report() if monitor is not None else None
            queues = np.bincount(routes, minlength=4).tolist()
            reports = {} if report is None else dict.fromkeys(range(4), report)
            plan = controller.plan(reports, queues, {0: router.report()} if router.report() else None)
            if plan is not None:
                router.adopt(plan)
    assert compiled() == before


CALLEE = """
from unskew.grouping.kernel_cache import kernel
@kernel
def inner(x):
    return x + {constant}
"""
CALLER = """
from unskew.grouping.kernel_cache import kernel
from {package}.callee import inner
@kernel
def outer(x):
    return 10 * _between(x)
@kernel
def _between(x):
    return inner(x)
"""


def answer(folder, package, cache):
    """What ``outer(1)`` gives in a new process, and whether it came from the cache."""
    program = (
        f"from {package}.caller import outer; print(outer(1), sum(outer.stats.cache_hits.values()),"
        " sum(outer.stats.cache_misses.values()))"
    )
    path = os.pathsep.join([str(folder), str(Path(grouping.__file__).parents[2])])
    environment = {**os.environ, "PYTHONPATH": path, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return tuple(int(word) for word in done.stdout.split())


@pytest.fixture
def package(tmp_path):
    """A package with a kernel that calls one of another file."""
    folder = tmp_path / "sources" / "someones"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "caller.py").write_text(CALLER.format(package="someones"))
    (folder / "callee.py").write_text(CALLEE.format(constant=1))
    return folder


@pytest.mark.slow
def test_a_kernel_is_compiled_anew_when_one_that_it_calls_has_changed(package, tmp_path):
    """Numba alone would go on with the old one: it looks at the caller's file only."""

    def ask():
        return answer(package.parent, "someones", tmp_path / "cache")

    assert ask() == (20, 0, 1)
    assert ask() == (20, 1, 0)
    (package / "callee.py").write_text(CALLEE.format(constant=2))
    assert ask() == (30, 0, 1)


@pytest.mark.slow
def test_the_same_sources_are_compiled_once_wherever_they_lie(package, tmp_path):
    """As a cluster's executors have them: in an archive, each at a place of its own."""

    def ask(place):
        archive = shutil.make_archive(str(tmp_path / place / "unskew"), "zip", package.parent)
        return answer(archive, "someones", tmp_path / "cache")

    assert ask("one") == (20, 0, 1)
    assert ask("other") == (20, 1, 0)
    assert answer(package.parent, "someones", tmp_path / "cache") == (20, 1, 0)
    (package / "callee.py").write_text(CALLEE.format(constant=2))
    assert ask("third") == (30, 0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["nbi", "nbc"])
def test_a_truncated_file_is_compiled_again(package, tmp_path, ending):
    """As a full disk or a crash leaves one: numba's index, or its code."""
    assert answer(package.parent, "someones", tmp_path / "cache") == (20, 0, 1)
    for file in tmp_path.joinpath("cache").rglob(f"*.{ending}"):
        os.truncate(file, file.stat().st_size // 2 if ending == "nbc" else 0)
    assert answer(package.parent, "someones", tmp_path / "cache") == (20, 0, 1)
    assert answer(package.parent, "someones", tmp_path / "cache") == (20, 1, 0)


@pytest.mark.slow
def test_without_a_place_for_a_cache_it_is_compiled_each_time(package, tmp_path):
    """As by an executor that runs as a user without a home folder."""
    (tmp_path / "file").touch()
    for _ in range(2):
        assert answer(package.parent, "someones", tmp_path / "file" / "cache") == (20, 0, 1)


def test_every_kernel_is_cached_so():
    """No kernel is made with numba's decorator directly."""
    for source in Path(grouping.__file__).parent.rglob("*.py"):
        if source.name != "kernel_cache.py":
            assert "njit" not in source.read_text(), source
