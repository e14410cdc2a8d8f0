"""Measures of the generators' statistics."""

import numpy as np

from unskew.producers.key_counts import KeyCounts


def counted(dataset):
    """The counts of all keys of a dataset."""
    return KeyCounts.of(dataset.blocks())


def slope(frequencies, first, last):
    """The exponent of the power law that fits the frequencies of ranks [first, last]: least squares in logarithms."""
    ranks = np.unique(np.geomspace(first, last, 60).astype(int))
    return -np.polyfit(np.log(ranks), np.log(np.asarray(frequencies)[ranks - 1]), 1)[0]
