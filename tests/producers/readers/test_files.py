"""Files in any format: compressed, cut off, many, and read from any record on."""

import bz2
import gzip
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.producers.readers.samples import ALL, DATA, SAMPLES, keys, read, reader
from unskew.errors import EnvironmentFault, UsageError
from unskew.producers.datasets.registry import FORMATS
from unskew.producers.readers.files import FileDataset
from unskew.producers.readers.inputs import Input, find_inputs
from unskew.producers.readers.rejected_records import RejectLog


@ALL
@pytest.mark.parametrize("kind", ["gzip", "bz2", "zstd"])
def test_compressed_files_read_the_same(name, file, messages, rejected, kind, tmp_path):
    plain = (DATA / file).read_bytes()
    halves = plain[: len(plain) // 2], plain[len(plain) // 2 :]  # archives are often several streams, one after another
    zstd = partial(pa.compress, codec="zstd", asbytes=True)
    compress = {"gzip": gzip.compress, "bz2": bz2.compress, "zstd": zstd}
    packed = tmp_path / "packed"
    packed.write_bytes(b"".join(compress[kind](half) for half in halves))
    dataset = reader(name, packed)
    assert read(dataset) == read(reader(name, DATA / file))
    assert dataset.consumed == packed.stat().st_size


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("coding", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_a_mark_says_how_text_is_coded(coding, pack, tmp_path):
    """Spreadsheets write their "Unicode text" so. Half a surrogate pair costs its line alone."""
    path, rejects = tmp_path / "ticker.tsv", RejectLog()
    rows = "\ufeff" + "".join(f"{at}\tİ{at}\n" for at in range(10_000)) + "1\t\ud83d\n2\tlast\n"
    path.write_bytes(pack(rows.encode(coding, "surrogatepass")))
    dataset = FileDataset("any", find_inputs([str(path)]), FORMATS["TWITTER_TICKER"], rejects)
    expected = [*(f"İ{at}" for at in range(10_000)), "last"]
    assert keys(dataset) == expected
    assert rejects.reasons == {"not UTF-8": 1}
    assert [key for block in dataset.blocks(10_000) for key in block.keys.to_pylist()] == ["last"]


def test_a_file_that_ends_too_early_is_said(tmp_path):
    packed = tmp_path / "cut.gz"
    packed.write_bytes(gzip.compress((DATA / "ticker.tsv").read_bytes())[:-20])
    with pytest.raises(EnvironmentFault, match=r"cut.gz cannot be read after .* bytes: Truncated"):
        read(reader("TWITTER_TICKER", packed))


def test_directories_and_patterns(tmp_path):
    for name in ("b.tsv", "a.tsv", ".a.tsv.crc", "_SUCCESS", "_committed_7"):  # the others are Spark's and Hadoop's
        (tmp_path / name).write_bytes(f"1\t{name[0].upper()}\n".encode())
    (tmp_path / "part-00000").touch()
    (tmp_path / "below").mkdir()
    assert keys(reader("TWITTER_TICKER", tmp_path)) == ["A", "B"]
    assert keys(reader("TWITTER_TICKER", tmp_path / "*.tsv")) == ["A", "B"]
    assert keys(reader("TWITTER_TICKER", tmp_path / "b.tsv", tmp_path / "[a]*")) == ["B", "A"]
    with pytest.raises(UsageError, match=r"nothing\.tsv: there is no such file"):
        find_inputs([str(tmp_path / "nothing.tsv")])
    with pytest.raises(UsageError, match="only once"):
        find_inputs(["-", "-"])


@given(st.data())
def test_reading_may_begin_at_any_record(data):
    name, file, messages, _ = data.draw(st.sampled_from(SAMPLES))
    dataset = reader(name, DATA / file, DATA / file, limit=data.draw(st.integers(0, 2 * messages + 2)))
    whole = read(dataset)
    start = data.draw(st.integers(0, len(whole)))
    assert read(dataset, start) == whole[start:]


def test_reading_goes_on_from_a_known_position(tmp_path):
    paths = []
    for number in range(3):
        paths.append(tmp_path / f"{number}.gz")
        rows = "".join(f"{at}\tT{number}_{at}\n" for at in range(400_000))
        paths[-1].write_bytes(gzip.compress(rows.encode(), 1))
    dataset = reader("TWITTER_TICKER", *paths)
    positions = [(dataset.position(), 0)]
    expected = []
    for block in dataset.blocks():
        expected += block.keys.to_pylist()
        positions.append((dataset.position(), len(expected)))
    assert len(positions) > 9
    for position, records in positions[:: len(positions) // 6]:
        assert position["position"] == records
        again = reader("TWITTER_TICKER", *paths)
        again.recall(position)
        for start in (records, records + 7):
            first = next(iter(again.blocks(start)), None)
            got = first.keys.to_pylist() if first else []
            assert got == expected[start : start + len(got)]


titles = st.text(st.characters(exclude_characters="\t\n\r", exclude_categories=["Cs"]), max_size=20)


@given(st.lists(st.tuples(titles, titles, titles, st.integers(0, 10**17)), min_size=1, max_size=30))
def test_any_title_survives(tmp_path_factory, rows):
    file = tmp_path_factory.mktemp("titles") / "any.tsv"
    file.write_bytes("".join(f"{prev}\t{curr}\t{kind}\t{n}\n" for prev, curr, kind, n in rows).encode())
    dataset = FileDataset("any", [Input(str(file), None)], FORMATS["WIKIPEDIA_CLICKSTREAM"], RejectLog())
    expected = [
        {"prev": prev, "curr": curr, "type": kind, "n": n}
        for number, (prev, curr, kind, n) in enumerate(rows)
        if curr
        # a mark of byte order at the very beginning is no part of the text
        if number or not prev.startswith("\ufeff")
    ]
    assert read(dataset)[-len(expected) or None :] == expected
    assert keys(dataset)[-len(expected) or None :] == [row["curr"] for row in expected]
