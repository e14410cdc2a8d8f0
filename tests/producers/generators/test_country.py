import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.producers.dataset import Generated
from unskew.producers.generators.country import SKEW_KEY, countries
from unskew.producers.registry import DATASETS, create


def keys_of(name, **options):
    """The code of each record's country."""
    return np.concatenate([block.keys.indices.to_numpy() for block in create(name, **options).blocks()])


def within(share, probability, records):
    """Five standard errors: a correct generator fails this once in two million seeds."""
    return abs(share - probability) <= 5 * np.sqrt(probability * (1 - probability) / records) + 1e-12


def test_the_list_names_each_country_once_and_the_skew_key_among_them():
    assert len(set(countries())) == len(countries()) == 197
    assert SKEW_KEY in countries()


@pytest.mark.parametrize("ratio", range(0, 101, 10))
def test_shares_are_those_of_the_ratio(ratio):
    records = 500_000
    counts = np.bincount(keys_of(f"COUNTRY_SKEW_R{ratio}", records=records, seed=ratio), minlength=197)
    skewed = countries().index(SKEW_KEY)
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
    hot = keys == countries().index(SKEW_KEY)
    assert within(hot[:150_000].mean(), 0.8 + 0.2 / 197, 150_000)
    assert within(hot[150_000:].mean(), 1 / 197, 150_001)
    # the half is a property of the position, not of a chunk: no trend within either side of the turn
    assert within(hot[149_000:150_000].mean(), 0.8 + 0.2 / 197, 1000)
    assert within(hot[150_000:151_000].mean(), 1 / 197, 1000)


def test_a_message_is_compact_json_of_the_key():
    for name in ("COUNTRY_SKEW_R0", "COUNTRY_HALF_SKEW_R80"):
        block = next(create(name, records=5000).blocks())
        for message, key in zip(block.messages.to_pylist(), block.keys.to_pylist(), strict=True):
            assert orjson.loads(message) == {"country": key}
            assert message == f'{{"country":"{key}"}}'.encode()
    assert {"Côte d'Ivoire", "São Tomé and Príncipe"} < set(countries())


def test_a_seed_decides_everything():
    assert np.array_equal(keys_of("COUNTRY_SKEW_R50", records=1000), keys_of("COUNTRY_SKEW_R50", records=1000))
    assert not np.array_equal(
        keys_of("COUNTRY_SKEW_R50", records=1000), keys_of("COUNTRY_SKEW_R50", records=1000, seed=1)
    )


@settings(max_examples=30, deadline=None)
@given(start=st.integers(0, 3 * Generated.chunk), length=st.integers(1, Generated.chunk + 5))
def test_reading_may_begin_anywhere(start, length):
    whole = keys_of("COUNTRY_SKEW_R40", records=start + length, seed=5)
    blocks = list(create("COUNTRY_SKEW_R40", records=start + length, seed=5).blocks(start))
    part = pa.concat_arrays([b.keys.dictionary_decode() for b in blocks])
    assert part.to_pylist() == np.array(countries())[whole[start:]].tolist()


def test_every_dataset_has_a_name_a_line_and_its_records():
    for name in DATASETS:
        dataset = create(name.lower(), records=7)
        assert dataset.name == name
        assert dataset.summary
        assert "\n" not in dataset.summary
        assert sum(len(block) for block in dataset.blocks()) == dataset.records == 7


def test_an_unknown_dataset_lists_those_there_are():
    with pytest.raises(ValueError, match=r"unknown dataset 'COUNTRY_SKEW_R85'; valid: COUNTRY_SKEW_R0, .*HALF"):
        create("COUNTRY_SKEW_R85")


@pytest.mark.parametrize(("option", "value"), [("records", -1), ("records", 1.5), ("seed", -1), ("records", True)])
def test_bad_numbers_are_named(option, value):
    with pytest.raises(ValueError, match=f"{option} is"):
        create("COUNTRY_SKEW_R0", **{option: value})
