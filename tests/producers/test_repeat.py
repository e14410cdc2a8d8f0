import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.producers.readers.files import Files
from unskew.producers.readers.formats import FORMATS
from unskew.producers.readers.inputs import inputs
from unskew.producers.readers.rejects import Rejects
from unskew.producers.registry import create
from unskew.producers.repeat import Repeated


def messages(dataset, start=0):
    blocks = [block.messages.dictionary_decode() for block in dataset.blocks(start)]
    return pa.concat_arrays(blocks).to_pylist() if blocks else []


@settings(deadline=None, max_examples=25)
@given(records=st.integers(1, 300), times=st.integers(1, 4), start=st.integers(0, 1300))
def test_the_records_come_again_in_the_same_order(records, times, start):
    once = create("COUNTRY_SKEW_R30", records=records, seed=2)
    again = Repeated(once, times)
    assert again.records == records * times
    assert messages(again, start) == (messages(once) * times)[start:]


def test_without_end():
    blocks = Repeated(create("COUNTRY_SKEW_R30", records=10)).blocks(5)
    assert [len(next(blocks)) for _ in range(4)] == [5, 10, 10, 10]


def test_nothing_cannot_be_repeated():
    with pytest.raises(ValueError, match="no records"):
        Repeated(create("COUNTRY_SKEW_R30", records=0))


def test_the_share_that_is_done_is_that_of_all_times(tmp_path):
    (tmp_path / "ticks.tsv").write_text("1\tA\n" * 10)
    once = Files("TWITTER_TICKER", inputs([str(tmp_path / "ticks.tsv")]), FORMATS["TWITTER_TICKER"], Rejects())
    again = Repeated(once, 4)
    assert [again.done() for _ in again.blocks()] == [0.25, 0.5, 0.75, 1.0]
    assert Repeated(once).done() is None
