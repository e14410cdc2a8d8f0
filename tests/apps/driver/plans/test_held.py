import os
import subprocess
import sys

import pyarrow as pa
import pytest

from unskew.apps.router.spill_buffer import SpillBuffer


def batch(first: int, rows: int = 1_000) -> pa.RecordBatch:
    numbers = pa.array(range(first, first + rows))
    keys = pa.array([f"k{i % 7 + first}" for i in range(rows)]).dictionary_encode()
    return pa.record_batch([keys, numbers], ["key", "number"])


@pytest.mark.parametrize("most", [1 << 30, 20_000, 0])
def test_batches_come_back_in_their_order(most, tmp_path, monkeypatch):
    """In memory, in a file, or partly in each; dictionaries differ from batch to batch."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    batches = [batch(1_000 * i) for i in range(9)]
    with SpillBuffer(most) as held:
        for each in batches:
            held.add(each)
        assert (held._file is not None) == (most < 1 << 30)
        assert not [*tmp_path.iterdir()], "a process that is killed leaves nothing"
        assert [each.to_pylist() for each in held] == [each.to_pylist() for each in batches]


def test_a_batch_larger_than_memory(tmp_path):
    """A process that may have 150 MiB more than it begins with holds a batch of 256 MiB."""
    program = """
import os, resource, sys
import numpy as np, pyarrow as pa
from unskew.apps.router.spill_buffer import SpillBuffer
def mapped():  # bytes of address space that aren't files
    return 1024 * int(next(line for line in open("/proc/self/status") if line.startswith("VmData")).split()[1])
resource.setrlimit(resource.RLIMIT_DATA, (mapped() + (150 << 20),) * 2)
total = 0
with SpillBuffer() as held:
    for i in range(64):
        held.add(pa.record_batch([pa.array(np.full(1 << 19, i))], ["n"]))
    for i, each in enumerate(held):
        assert each.column("n")[0].as_py() == each.column("n")[-1].as_py() == i
        total += each.nbytes
print(total)
try:
    np.ones(256 << 20, np.uint8)
except MemoryError:
    print("no more")
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False,
        env={**os.environ, "TMPDIR": str(tmp_path), "ARROW_DEFAULT_MEMORY_POOL": "system"},
    )  # fmt: skip
    assert run.stdout.split() == [str(256 << 20), "no", "more"], run.stderr
