import numpy as np
import pytest

from unskew.producers.datasets.country import SKEW_KEY, load_countries
from unskew.producers.datasets.registry import create_dataset


def keys_of(name, **options):
    """The code of each record's country."""
    return np.concatenate([block.keys.indices.to_numpy() for block in create_dataset(name, **options).blocks()])


def within(share, probability, records):
    """Five standard errors: a correct generator fails this once in two million seeds."""
    return abs(share - probability) <= 5 * np.sqrt(probability * (1 - probability) / records) + 1e-12


def test_the_list_names_each_country_once_and_the_skew_key_among_them():
    assert len(set(load_countries())) == len(load_countries()) == 197
    assert SKEW_KEY in load_countries()


@pytest.mark.parametrize("ratio", [0, 30, 80, 100])
def test_shares_are_those_of_the_ratio(ratio):
    records = 500_000
    counts = np.bincount(keys_of(f"COUNTRY_SKEW_R{ratio}", records=records, seed=ratio), minlength=197)
    skewed = load_countries().index(SKEW_KEY)
    uniform = (1 - ratio / 100) / 197
    assert within(counts[skewed] / records, ratio / 100 + uniform, records)
    others = np.delete(counts, skewed)
    assert all(within(count / records, uniform, records) for count in others)
    if ratio < 100:  # the rest is uniform: χ² with 195 degrees of freedom stays below mean + 5 σ
        chi2 = ((others - others.mean()) ** 2 / others.mean()).sum()
        assert chi2 < 195 + 5 * np.sqrt(2 * 195)


def test_half_skew_turns_uniform_exactly_in_the_middle():
    records = 300_001
    keys = keys_of("COUNTRY_HALF_SKEW_R80", records=records, seed=3)
    hot = keys == load_countries().index(SKEW_KEY)
    assert within(hot[:150_000].mean(), 0.8 + 0.2 / 197, 150_000)
    assert within(hot[150_000:].mean(), 1 / 197, 150_001)
    # the half is a property of the position, not of a chunk: no trend within either side of the turn
    assert within(hot[149_000:150_000].mean(), 0.8 + 0.2 / 197, 1000)
    assert within(hot[150_000:151_000].mean(), 1 / 197, 1000)
