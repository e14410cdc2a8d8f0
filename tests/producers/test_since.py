import orjson
import pyarrow as pa
import pytest

from unskew.errors import UsageError
from unskew.producers.hashtags import hashtag_keys
from unskew.producers.registry import create
from unskew.producers.since import Since, moment

HALF = 1_383_264_000_000 + 15 * 86_400_000


def rows(dataset, start=0):
    return [
        (message, time)
        for block in dataset.blocks(start)
        for message, time in zip(block.messages.to_pylist(), block.times.tolist(), strict=True)
    ]


@pytest.fixture(scope="module")
def month():
    return create("TWITTER_TICKER", scale=0.2)


def test_what_happened_before_is_left_out(month):
    expected = [row for row in rows(month) if row[1] >= HALF]
    assert rows(Since(month, HALF)) == expected
    assert 0.4 < len(expected) / month.records < 0.6


@pytest.mark.parametrize("start", [0, 1, 40_000, 60_000, 10**9])
def test_positions_count_what_is_left(month, start):
    assert rows(Since(month, HALF), start) == rows(Since(month, HALF))[start:]


def test_it_is_another_load_than_the_whole(month):
    assert Since(month, HALF).identity() not in (month.identity(), Since(month, 0).identity())


@pytest.mark.slow
def test_keys_of_several_go_with_their_messages():
    later = 1_478_563_200_000 + 43_200_000
    for block in Since(create("TWITTER_ELECTION", records=50_000), later).blocks():
        expected = []
        for owner, message in enumerate(block.messages.to_pylist()):
            tags, kept = hashtag_keys(pa.array(orjson.loads(message)["hashtags"], pa.string()))
            expected += [(owner, tag) for tag, has_key in zip(tags.to_pylist(), kept, strict=True) if has_key]
        assert list(zip(block.owners.tolist(), block.keys.to_pylist(), strict=True)) == expected


def test_records_without_times_have_no_since():
    with pytest.raises(UsageError, match="ZIPF has no times"):
        next(Since(create("ZIPF", records=5), 0).blocks())


@pytest.mark.parametrize("text", ["soon", "2013-13-01", ""])
def test_a_moment_is_seconds_or_iso(text):
    with pytest.raises(ValueError, match="is no moment"):
        moment(text)
