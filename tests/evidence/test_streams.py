"""The balance tables' streams that have no generator: in which a key's tuples come one after the other."""

import numpy as np

from evidence.balance.streams import BURST, draw_bursts, sort_stream
from unskew.grouping.streams import zipf


def test_a_sorted_stream_has_each_key_in_one_stretch():
    stream = zipf(1.0, 100)
    keys = sort_stream(stream, 10_000, 3)
    assert np.array_equal(np.sort(keys), np.sort(stream.take(0, 10_000, 3)))
    assert (keys[1:] != keys[:-1]).sum() + 1 == len(np.unique(keys))


def test_bursts_are_a_thousand_tuples_of_one_key():
    keys = draw_bursts(zipf(1.0, 100), 10_500, 3)
    assert np.array_equal(keys, np.repeat(zipf(1.0, 100).take(0, 11, 3), BURST)[:10_500])
