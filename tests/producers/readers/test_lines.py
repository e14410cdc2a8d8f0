"""Lines come out whole, numbered and bounded, however the file is cut."""

import io

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from unskew.producers.readers.inputs import ByteStream
from unskew.producers.readers.lines import LONGEST, read_sections, slice_bytes


def stream(data):
    return ByteStream("test", io.BufferedReader(io.BytesIO(data)))


def read(data, size=1 << 16):
    """(number, line) of all lines, and the numbers of the overlong ones."""
    lines, overlong, last = [], [], None
    for section in read_sections(stream(data), size):
        lines += [(int(section.lines.numbers[at]), section.lines[at]) for at in range(len(section.lines))]
        overlong += [number for number, _ in section.overlong]
        last = section
    return lines, overlong, last


def plain(data):
    """The same by Python's own means: a line is what is before LF, one CR at its end is no part of it."""
    found = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if found[-1] == b"":
        found.pop()
    lines = [(number, line.removesuffix(b"\r")) for number, line in enumerate(found, 1)]
    return [line for line in lines if line[1]]


texts = st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r\n", b"\r", b"\t", "ü".encode(), b" "]), max_size=60)


@given(texts, st.integers(1, 20))
@example([b"\xef\xbb\xbf", b"x\n"], 2)
@example([b"\xef\xbb\xbf", b"x\n"], 9)
def test_lines_are_those_that_python_finds(parts, size):
    data = b"".join(parts)
    lines, overlong, last = read(data, max(size, 3))
    assert lines == plain(data)
    assert not overlong
    if last is not None:
        assert last.number <= data.count(b"\n") + 1


@given(texts, st.integers(3, 20))
def test_reading_may_go_on_after_any_section(parts, size):
    data = b"".join(parts)
    whole, seen = plain(data), 0
    for section in read_sections(stream(data), size):
        seen += len(section.lines)
        rest = stream(data)
        rest.skip(section.offset)
        after = [
            (int(more.lines.numbers[at]), more.lines[at])
            for more in read_sections(rest, size, section.number)
            for at in range(len(more.lines))
        ]
        assert after == whole[seen:]


@pytest.mark.parametrize("size", [1000, 100_000, 1 << 20])
@pytest.mark.parametrize("end", [b"\n", b""])
def test_overlong_lines_are_left_out_and_named(size, end):
    long = b"x" * (LONGEST + 1)
    data = b"one\n" + long + b"\nthree\n" + 3 * long + b"\nfive\n" + long + end
    lines, overlong, last = read(data, size)
    assert lines == [(1, b"one"), (3, b"three"), (5, b"five")]
    assert overlong == [2, 4, 6]
    assert last is not None


def test_a_line_of_the_longest_length_is_kept():
    lines, overlong, _ = read(b"y" * LONGEST + b"\nz")
    assert [len(line) for _, line in lines] == [LONGEST, 1]
    assert not overlong


def test_pieces_are_slices():
    data = np.frombuffer(b"alpha\tbeta\tgamma", np.uint8)
    assert slice_bytes(data, np.array([0, 6, 11]), np.array([5, 6, 16])).to_pylist() == [b"alpha", b"", b"gamma"]
    assert slice_bytes(data, np.array([], np.int64), np.array([], np.int64)).to_pylist() == []


def test_only_broken_lines_are_not_utf8():
    data = "okay\nüñ\n".encode() + b"\xff\xfe\nlast\n"
    valid = [valid for section in read_sections(stream(data)) for valid in section.lines.valid_utf8().tolist()]
    assert valid == [True, True, False, True]
