"""The files of event logs: Spark's compressions, rolled and compacted logs, and what is no log."""

import os
import struct

import pyarrow as pa
import pytest

from unskew.apps.diagnosis.log_files import LogFiles, find_logs
from unskew.errors import EnvironmentFault, UsageError

TEXT = b"".join(b'{"Event":"number %d"}\n' % number for number in range(5_000))
LINES = TEXT.splitlines()


def frame_lz4(text, block=1 << 15):
    """As lz4-java's LZ4BlockOutputStream writes it; a stream ends with an empty block. A short one isn't compressed."""
    codec, out = pa.Codec("lz4_raw"), b""
    for start in range(0, len(text), block):
        part = text[start : start + block]
        packed = codec.compress(part, asbytes=True) if len(part) == block else part
        method = 0x20 if len(part) == block else 0x10
        out += struct.pack("<8sBiii", b"LZ4Block", method | 5, len(packed), len(part), 0) + packed
    return out + struct.pack("<8sBiii", b"LZ4Block", 0x10 | 5, 0, 0, 0)


def frame_snappy(text, block=1 << 15):
    """As snappy-java's SnappyOutputStream writes it."""
    codec, out = pa.Codec("snappy"), struct.pack(">8sii", b"\x82SNAPPY\x00", 1, 1)
    for start in range(0, len(text), block):
        packed = codec.compress(text[start : start + block], asbytes=True)
        out += struct.pack(">i", len(packed)) + packed
    return out


def frame_zstd(text):
    """Two frames, one after the other."""
    codec = pa.Codec("zstd")
    half = len(text) // 2
    return codec.compress(text[:half], asbytes=True) + codec.compress(text[half:], asbytes=True)


FRAMES = {"": bytes, ".zstd": frame_zstd, ".lz4": lambda text: 2 * frame_lz4(text)}
FRAMES |= {".snappy": frame_snappy}


@pytest.mark.parametrize("ending", FRAMES)
@pytest.mark.parametrize("more", ["", ".inprogress"])
def test_compressed_logs_have_their_lines(ending, more, tmp_path):
    file = tmp_path / f"app-1{ending}{more}"
    file.write_bytes(FRAMES[ending](TEXT))
    [log] = find_logs(file)
    read = []
    assert [*log.read_lines(read.append)] == (LINES if ending != ".lz4" else 2 * LINES)
    assert (log.name, sum(read)) == ("app-1", log.size)


@pytest.mark.parametrize("ending", [".zstd", ".lz4", ".snappy"])
def test_a_log_that_ends_within_a_block_has_the_lines_before(ending, tmp_path):
    whole = FRAMES[ending](TEXT)
    file = tmp_path / f"app-1{ending}.inprogress"
    file.write_bytes(whole[: len(whole) * 3 // 4])
    found = [*find_logs(file)[0].read_lines()]
    assert len(found) > 1_000
    assert found[:-1] == (2 * LINES)[: len(found) - 1]


def test_rolled_files_are_read_in_order_and_a_compacted_one_stands_for_those_before(tmp_path):
    folder = tmp_path / "eventlog_v2_app-7"
    folder.mkdir()
    for name in ("events_1_app-7", "events_2_app-7.compact", "events_2_app-7", "events_3_app-7", "events_10_app-7"):
        (folder / name).write_text(f"{name}\n")
    (folder / "appstatus_app-7").touch()
    [log] = find_logs(folder)
    assert log.name == "app-7"
    assert [*log.read_lines()] == [b"events_2_app-7.compact", b"events_3_app-7", b"events_10_app-7"]


def test_a_folder_has_several_applications_the_newest_first(tmp_path):
    (tmp_path / "eventlog_v2_app-1").mkdir()
    for number, name in enumerate(["eventlog_v2_app-1/events_1_app-1.zstd", "app-3", "local-2.lz4"]):
        (tmp_path / name).write_bytes(b"x")
        os.utime(tmp_path / name, (number, number))
    (tmp_path / ".app-3.crc").write_bytes(b"x")
    assert [log.name for log in find_logs(tmp_path)] == ["local-2", "app-3", "app-1"]


def test_what_is_no_log_is_refused_in_a_line(tmp_path):
    with pytest.raises(UsageError, match="there is no event log '/nowhere'; valid: a file, or a folder"):
        find_logs(tmp_path / "/nowhere")
    with pytest.raises(UsageError, match="has no event log; valid: one with Spark's logs"):
        find_logs(tmp_path)
    for name, text, why in (
        ("app-1.lzf", b"ZV", "is compressed by lzf; valid: plain text, .zstd, .lz4, .snappy"),
        ("app-1.lz4", b"\x04\x22\x4d\x18" + bytes(40), "isn't compressed by Spark's lz4"),
    ):
        (tmp_path / name).write_bytes(text)
        with pytest.raises(UsageError, match=why):
            [*find_logs(tmp_path / name)[0].read_lines()]
    (tmp_path / "app-2.zstd").write_bytes(b"no frame of zstd at all")
    with pytest.raises(EnvironmentFault, match="cannot be read"):
        [*LogFiles("app-2", (tmp_path / "app-2.zstd",)).read_lines()]
