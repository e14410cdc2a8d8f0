import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.errors import UsageError
from unskew.producers.datasets.interface import Block
from unskew.producers.pace import Pace, Rate, Replay


def block(n, times=None):
    return Block(
        pa.array([b"{}"] * n, pa.binary()),
        pa.array([""] * n, pa.string()),
        times=None if times is None else np.array(times, np.int64),
    )


def test_as_fast_as_it_goes_is_one_piece_at_once():
    assert list(Pace().pieces(block(9), 100)) == [(9, 0.0)]


@given(st.integers(1, 500), st.integers(0, 10**6), st.floats(0.5, 1e6))
def test_a_rate_is_never_exceeded(n, sent, rate):
    start = 0
    for stop, due in Rate(rate).pieces(block(n), sent):
        assert due == pytest.approx((sent + start) / rate)
        assert 1 <= stop - start <= max(1, rate / 20)
        start = stop
    assert start == n


@given(
    st.lists(st.lists(st.integers(-5000, 5000), min_size=1, max_size=30), min_size=1, max_size=4), st.floats(0.1, 50)
)
def test_a_replay_keeps_the_records_times(blocks, speedup):
    replay, first, latest, last_due = Replay(speedup), blocks[0][0], 0.0, 0.0
    for times in blocks:
        start = 0
        for stop, due in replay.pieces(block(len(times), times), 0):
            assert stop > start
            assert due >= last_due
            # each record at its time or up to a beat early, but never before one that comes in front of it
            for time in times[start:stop]:
                latest = max(latest, (time - first) / 1000 / speedup)
                assert due <= latest + 1e-9
                assert latest - due <= Rate.beat + 1e-9
            last_due, start = due, stop
        assert start == len(times)


def test_records_without_times_can_t_be_replayed():
    with pytest.raises(UsageError, match="no times"):
        list(Replay().pieces(block(1), 0))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Rate(0), "rate is 0"),
        (lambda: Rate(float("inf")), "rate is inf"),
        (lambda: Replay(-1), "speedup is -1"),
        (lambda: Replay(float("nan")), "speedup is nan"),
    ],
)
def test_bad_numbers_are_named(make, says):
    with pytest.raises(ValueError, match=says):
        make()
