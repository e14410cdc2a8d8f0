"""The programs of other engines, each on a few thousand messages: what they write is what a plain count finds."""

import subprocess
import sys

import numpy as np
import pytest

from benchmarks.engines.contestants import CONTESTANTS, Ours
from benchmarks.engines.jobs import Found, Truth, sessions_of


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.takes(260)
@pytest.mark.timeout(900)
@pytest.mark.parametrize("job", ["count", "sessions", "work"])
def test_every_engine_counts_right(job):
    engines = [name for name, each in CONTESTANTS.items() if not isinstance(each, Ours) or name == "BOUNDED_LOAD"]
    of = ["--jobs", job, "--engines", *engines, "--records", "5000", "--repeats", "1"]
    command = [sys.executable, "-m", "benchmarks.engines", *of]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    assert all(any(row.startswith(f"| {name} ") for row in rows) for name in engines)
    assert "wrong" not in done.stdout, done.stdout
    if "can't be had" in done.stdout:
        pytest.skip(done.stdout[done.stdout.index("can't be had") :])


def test_sessions_are_those_of_a_plain_loop():
    random = np.random.default_rng(5)
    keys, times = random.integers(0, 7, 400), random.integers(0, 5_000, 400)
    starts = sessions_of(keys, times, 30)
    last, start = {}, {}
    for number in sorted(range(400), key=times.__getitem__):
        key, at = keys[number], times[number]
        if key not in last or at - last[key] > 30:
            start[key] = at
        last[key] = at
        assert starts[number] == start[key]
    assert len({*zip(keys, starts, strict=True)}) > 7


def test_what_is_wrong_is_found():
    truth = Truth({(0, "tr"): 3, (0, "de"): 1}, 4)
    found = Found()
    found.add([((0, "tr"), 2), ((0, "de"), 1)], 10)
    assert found.wrong(truth) == "3 of 4 messages; 1 of 2 counts are wrong"
    found.add([((0, "tr"), 3)], 20)
    assert not found.wrong(truth)
    assert (found.total, found.last_ms) == (4, 20)
    found.add([((5000, "tr"), 1)], 30)
    assert found.wrong(truth) == "5 of 4 messages; 1 of 3 counts are wrong"


def test_a_count_that_is_taken_back_counts_no_longer():
    truth = Truth({(0, "tr"): 3}, 3)
    found = Found()
    found.add([((5, "tr"), 2)], 10)
    assert not found.all_of(truth)
    found.add([((0, "tr"), 3)], 20)
    assert not found.all_of(truth)
    found.add([((5, "tr"), -2)], 20)
    assert found.all_of(truth)
    assert found.total == 3
    found.add([((0, "tr"), -1)], 30)  # the later one came first
    assert not found.wrong(truth)
