"""A dataset's later part, and a dataset again and again."""

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.producers.datasets.interface import DatasetTail, RepeatedDataset
from unskew.producers.datasets.registry import FORMATS, create_dataset
from unskew.producers.messages import hashtag_keys
from unskew.producers.pace import Replay
from unskew.producers.readers.columns import ColumnDataset
from unskew.producers.readers.files import FileDataset
from unskew.producers.readers.inputs import find_inputs
from unskew.producers.readers.rejected_records import RejectLog

HALF = 1_383_264_000_000 + 15 * 86_400_000


def rows(dataset, start=0):
    return [
        (message, time)
        for block in dataset.blocks(start)
        for message, time in zip(block.messages.to_pylist(), block.times.tolist(), strict=True)
    ]


@pytest.fixture(scope="module")
def month():
    return create_dataset("TWITTER_TICKER", scale=0.2)


def test_what_happened_before_is_left_out(month):
    expected = [row for row in rows(month) if row[1] >= HALF]
    assert rows(DatasetTail(month, HALF)) == expected
    assert 0.4 < len(expected) / month.records < 0.6


@pytest.mark.parametrize("start", [0, 1, 40_000, 60_000, 10**9])
def test_positions_count_what_is_left(month, start):
    assert rows(DatasetTail(month, HALF), start) == rows(DatasetTail(month, HALF))[start:]


def test_it_is_another_upload_than_the_whole(month):
    assert DatasetTail(month, HALF).identity() not in (month.identity(), DatasetTail(month, 0).identity())


@pytest.mark.slow
def test_keys_of_several_go_with_their_messages():
    later = 1_478_563_200_000 + 43_200_000
    for block in DatasetTail(create_dataset("TWITTER_ELECTION", records=50_000), later).blocks():
        expected = []
        for owner, message in enumerate(block.messages.to_pylist()):
            tags, kept = hashtag_keys(pa.array(orjson.loads(message)["hashtags"], pa.string()))
            expected += [(owner, tag) for tag, has_key in zip(tags.to_pylist(), kept, strict=True) if has_key]
        assert list(zip(block.owners.tolist(), block.keys.to_pylist(), strict=True)) == expected


def messages(dataset, start=0):
    found = [block.messages for block in dataset.blocks(start)]
    blocks = [part.dictionary_decode() if isinstance(part, pa.DictionaryArray) else part for part in found]
    return pa.concat_arrays(blocks).to_pylist() if blocks else []


@settings(deadline=None, max_examples=25)
@given(records=st.integers(1, 300), times=st.integers(1, 4), start=st.integers(0, 1300))
def test_the_records_come_again_in_the_same_order(records, times, start):
    once = create_dataset("COUNTRY_SKEW_R30", records=records, seed=2)
    again = RepeatedDataset(once, times)
    assert again.records == records * times
    assert messages(again, start) == (messages(once) * times)[start:]


@pytest.mark.parametrize("start", [0, 1, 7, 10, 14])
def test_the_times_of_a_turn_follow_those_of_the_last(start, tmp_path):
    (tmp_path / "rows.csv").write_text("k,t\n" + "".join(f"a,{time}\n" for time in (5000, 4000, 6000, 9000, 8000)))
    once = ColumnDataset(find_inputs([str(tmp_path / "rows.csv")]), RejectLog(), "k", "t")
    times = [time for _, time in rows(RepeatedDataset(once, 3), start)]
    turn = [5000, 4000, 6000, 9000, 8000]
    expected = [time + 4000 * again for again in range(3) for time in turn][start:]
    moved = expected[0] - times[0]  # a later start begins at the records' own times
    assert times == [time - moved for time in expected]
    assert messages(RepeatedDataset(once, 3), start) == (messages(once) * 3)[start:]
    last = 0.0
    pace = Replay(1.0)
    for block in RepeatedDataset(once, 3).blocks():
        for _, due in pace.pieces(block, 0):
            assert due - last <= 3.1
            last = due
    assert last == pytest.approx(12)


def test_without_end():
    blocks = RepeatedDataset(create_dataset("COUNTRY_SKEW_R30", records=10)).blocks(5)
    assert [len(next(blocks)) for _ in range(4)] == [5, 10, 10, 10]


def test_nothing_cannot_be_repeated():
    with pytest.raises(ValueError, match="no records"):
        RepeatedDataset(create_dataset("COUNTRY_SKEW_R30", records=0))


def test_the_share_that_is_done_is_that_of_all_times(tmp_path):
    (tmp_path / "ticks.tsv").write_text("1\tA\n" * 10)
    once = FileDataset(
        "TWITTER_TICKER", find_inputs([str(tmp_path / "ticks.tsv")]), FORMATS["TWITTER_TICKER"], RejectLog()
    )
    again = RepeatedDataset(once, 4)
    assert [again.progress() for _ in again.blocks()] == [0.25, 0.5, 0.75, 1.0]
    assert RepeatedDataset(once).progress() is None
