"""Tuples on their way to workers: packets, and what a router keeps of a batch until it is planned."""

import os
import subprocess
import sys
from functools import partial
from itertools import pairwise
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.apps.router import router, tuple_packets
from unskew.apps.router.router import Routing, SourceRouter
from unskew.apps.router.spill_buffer import MOST, SpillBuffer
from unskew.apps.router.tuple_packets import Packer
from unskew.errors import UsageError
from unskew.grouping import create

tuples_lists = st.lists(st.tuples(st.sampled_from([*"abcdefg", None]), st.integers(0, 6), st.integers()), max_size=200)


def unpacked(batches: list[pa.RecordBatch]) -> dict[int, list]:
    rows: dict[int, list] = {}
    for batch in batches:
        for worker, packet in zip(batch.column("worker").to_pylist(), batch.column("packet"), strict=True):
            rows.setdefault(worker, []).extend(tuple_packets.read_packet(packet).to_pylist())
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


@given(tuples_lists, st.lists(st.integers(0, 200), max_size=4), st.sampled_from([0, 100, MOST]))
def test_a_grouping_that_looks_at_batches_gets_the_source_s_part_whole(rows, cuts, most):
    """However Spark cuts it, and held in memory or a file: each piece gets its own tuples' workers."""
    keys = pa.array([r[0] for r in rows], pa.string())
    bounds = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    pieces = [pa.record_batch([keys[first:end]], ["key"]) for first, end in pairwise(bounds)]
    opened = SourceRouter(Routing("PLANNED", 7), 0, None)
    with patch.object(router, "SpillBuffer", partial(SpillBuffer, most)):
        routed = list(opened.through((piece, piece["key"].dictionary_encode(), None, None) for piece in pieces))
    assert [own for own, _ in routed] == pieces
    workers = np.concatenate([workers for _, workers in routed])
    assert workers.tolist() == create("PLANNED", 7).route(keys).tolist()


def test_plain_tuples_have_no_dictionary():
    """The packets of a hot key have one, and a worker's own code may be for plain columns."""
    for keys in (["a", "", None, "b"], [7, None, -1, 2**40], [b"", b"x", b"x", b"y"], [None] * 4):
        given = pa.record_batch({"key": pa.array(keys * 500), "value": pa.array(range(2000))})
        encoded = given.set_column(0, "key", given.column("key").dictionary_encode())
        (packet,) = tuple_packets.cut_packets(encoded, np.zeros(2000, np.int32), 1).column("packet")
        assert pa.types.is_dictionary(tuple_packets.read_packet(packet).column("key").type)
        assert tuple_packets.decode_dictionaries(tuple_packets.read_packet(packet)) == given


@pytest.mark.parametrize("kind", [pa.string(), pa.int64(), pa.binary()])
@pytest.mark.parametrize("filled", [True, False])
def test_a_null_key_is_routed_as_a_key_of_its_own(kind, filled):
    keys = pa.array([None, "1", None, "2"] if filled else [None] * 4, pa.string()).cast(kind)
    rows = pa.record_batch({"key": keys, "value": pa.array(range(4))})
    route = tuple_packets.make_packet_router(Routing("KEY", 5), "key", None, None, ["key", "value"])
    found = unpacked(list(route(iter([rows]))))
    assert sorted((row["value"], worker) for worker, own in found.items() for row in own) == [
        *enumerate(create("KEY", 5).route(keys).tolist())
    ]
    assert sum(row["key"] is None for own in found.values() for row in own) == keys.null_count


@pytest.mark.parametrize("grouping", ["BOUNDED_LOAD", "PLANNED"])
def test_costs_come_with_the_tuples(grouping):
    """As a column of packets' tuples, and beside the keys; in several pieces."""
    rng = np.random.default_rng(0)
    keys, costs = rng.integers(0, 30, 900), rng.exponential(1.0, 900)
    router_ = create(grouping, 5, balance="cost")
    expected = router_.route(keys, costs=costs).tolist()
    routing = Routing(grouping, 5, options={"balance": "cost"})
    rows = pa.record_batch({"key": keys, "value": np.arange(900), "cost": costs})
    pieces = [rows.slice(start, 300) for start in (0, 300, 600)]
    route = tuple_packets.make_packet_router(routing, "key", None, None, ["key", "value"], None, "cost")
    found = unpacked(list(route(iter(pieces))))
    assert [worker for _, worker in sorted((row["value"], w) for w, own in found.items() for row in own)] == expected
    by_column = tuple_packets.make_column_router(routing, ["key", "source", "cost"])
    arrays = ((piece["key"], pa.array([0] * 300), piece["cost"]) for piece in pieces)
    assert pa.chunked_array(list(by_column(arrays))).to_pylist() == expected


@pytest.mark.parametrize("fields", [None, lambda batch: batch])
def test_a_message_without_a_key_is_not_routed(fields):
    """Whether Python has read the key from it or Spark."""
    keys = pa.record_batch({"key": pa.array([None, "1", None, "2"])})
    route = tuple_packets.make_packet_router(
        Routing("KEY", 5), "key", None, None, ["key"], cast("Any", fields), messages=True
    )
    found = unpacked(list(route(iter([keys]))))
    assert sorted(row["key"] for own in found.values() for row in own) == ["1", "2"]


@pytest.mark.parametrize("source", ["../../../x", None])
def test_a_source_is_no_path(source, tmp_path):
    """It names the folder of its router's state."""
    routing = Routing("KEY", 5, str(tmp_path / "checkpoint"))
    route = tuple_packets.make_packet_router(routing, "key", "source", None, ["key"])
    rows = pa.record_batch({"key": ["a"], "source": pa.array([source], pa.string())})
    with pytest.raises(UsageError, match=f"source is {source!r}; valid: an integer"):
        list(route(iter([rows])))


def test_memory_is_bounded_by_flushing():
    packer = Packer(2)
    batch = pa.record_batch([pa.array(np.zeros(40_000, np.int64))], ["key"])
    assert list(packer.add(batch, np.zeros(40_000, np.int32))) == []
    (full,) = packer.add(batch, np.zeros(40_000, np.int32))
    assert tuple_packets.read_packet(full.column("packet")[0]).num_rows == 80_000
    assert list(packer.flush()) == []
    packer = Packer(1000)
    batch = pa.record_batch([pa.array(np.zeros(65_536, np.int64))], ["key"])
    out = list(packer.add(batch, (np.arange(65_536) % 1000).astype(np.int32)))
    assert out == [], "66 tuples a worker would be mostly overhead: it waits for more"


def test_large_dictionaries_are_not_repeated_in_every_packet():
    n = 10_000
    keys = pa.array([f"key-{i}" for i in range(n)]).dictionary_encode()
    cut = tuple_packets.cut_packets(pa.record_batch([keys], ["key"]), (np.arange(n) % 100).astype(np.int32), 100)
    size = sum(len(p.as_py()) for p in cut.column("packet"))
    assert size < 4 * keys.dictionary.nbytes


def test_long_keys_are_few_to_a_packet():
    """A dictionary hides how large tuples are: in packets they are written out, or a dictionary is in each."""
    packer = Packer(1000)
    keys = pa.array([f"{i}".ljust(1 << 16, "x") for i in range(100)])
    column = pa.DictionaryArray.from_arrays(pa.array((np.arange(1000) % 100).astype(np.int32)), keys)
    workers = (np.arange(1000) * 7 % 1000).astype(np.int32)
    sizes = [cut.nbytes for _ in range(10) for cut in packer.add(pa.record_batch([column], ["key"]), workers)]
    assert max(sizes) < 2 * tuple_packets._MAX_BYTES


def test_a_dictionary_is_not_in_every_packet_if_it_is_large():
    """60 keys of 64 KiB, which 60,000 tuples name, but each worker gets few of them."""
    keys = pa.array([f"{i}".ljust(1 << 16 if i < 30 else 5, "x") for i in range(60)], pa.string())
    codes = np.where(np.arange(60_000) < 300, np.arange(60_000) % 30, 30 + np.arange(60_000) % 30)
    column = pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), keys)
    cut = tuple_packets.cut_packets(
        pa.record_batch([column], ["key"]), (np.arange(60_000) % 1000).astype(np.int32), 1000
    )
    assert cut.nbytes < 64 << 20


def numbered(first: int, rows: int = 1_000) -> pa.RecordBatch:
    numbers = pa.array(range(first, first + rows))
    keys = pa.array([f"k{i % 7 + first}" for i in range(rows)]).dictionary_encode()
    return pa.record_batch([keys, numbers], ["key", "number"])


@pytest.mark.parametrize("most", [1 << 30, 20_000, 0])
def test_batches_come_back_in_their_order(most, tmp_path, monkeypatch):
    """In memory, in a file, or partly in each; dictionaries differ from batch to batch."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    batches = [numbered(1_000 * i) for i in range(9)]
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
