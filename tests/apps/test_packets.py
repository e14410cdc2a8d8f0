import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from unskew.apps.topology import packets
from unskew.apps.topology.packets import Packer

tuples_lists = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 6), st.integers()), max_size=200)


def unpacked(batches: list[pa.RecordBatch]) -> dict[int, list]:
    rows: dict[int, list] = {}
    for batch in batches:
        for worker, packet in zip(batch.column("worker").to_pylist(), batch.column("packet"), strict=True):
            rows.setdefault(worker, []).extend(packets.read(packet).to_pylist())
    return rows


@given(st.lists(tuples_lists, max_size=4), st.booleans())
def test_each_worker_gets_its_tuples_in_order(batches, dictionary):
    packer = Packer(7)
    out: list[pa.RecordBatch] = []
    expected: dict[int, list] = {}
    for rows in batches:
        key = pa.array([r[0] for r in rows], pa.string())
        batch = pa.record_batch(
            [key.dictionary_encode() if dictionary else key, pa.array([r[2] % 1000 for r in rows], pa.int64())],
            ["key", "value"],
        )
        out += packer.add(batch, np.array([r[1] for r in rows], np.int32))
        for letter, worker, value in rows:
            expected.setdefault(worker, []).append({"key": letter, "value": value % 1000})
    out += packer.flush()
    assert unpacked(out) == expected


def test_memory_is_bounded_by_flushing():
    packer = Packer(2)
    batch = pa.record_batch([pa.array(np.zeros(40_000, np.int64))], ["key"])
    assert list(packer.add(batch, np.zeros(40_000, np.int32))) == []
    (full,) = packer.add(batch, np.zeros(40_000, np.int32))
    assert packets.read(full.column("packet")[0]).num_rows == 80_000
    assert list(packer.flush()) == []


def test_many_workers_get_packets_that_are_worth_their_overhead():
    packer = Packer(1000)
    batch = pa.record_batch([pa.array(np.zeros(65_536, np.int64))], ["key"])
    out = list(packer.add(batch, (np.arange(65_536) % 1000).astype(np.int32)))
    assert out == []  # 66 tuples a worker would be mostly overhead: it waits for more


def test_large_dictionaries_are_not_repeated_in_every_packet():
    n = 10_000
    keys = pa.array([f"key-{i}" for i in range(n)]).dictionary_encode()
    cut = packets.cut(pa.record_batch([keys], ["key"]), (np.arange(n) % 100).astype(np.int32), 100)
    size = sum(len(p.as_py()) for p in cut.column("packet"))
    assert size < 4 * keys.dictionary.nbytes
