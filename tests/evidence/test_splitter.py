"""What evidence.speed.splitter sets beside ours reads the same keys."""

import random

import pyarrow as pa
import pytest

from evidence.speed.splitter import READERS, SPELLINGS, mistakes, ours
from tests.oracle.messages import fuzzed

COUNTRIES = ["Turkey", "Côte d'Ivoire", "a: b", ""]


@pytest.mark.parametrize("name", READERS)
def test_contestants_read_the_keys_of_good_messages(name):
    for spelling, shape in SPELLINGS.items():
        messages = [shape.format(country, number).encode() for number, country in enumerate(COUNTRIES)]
        suffix = " ô" if spelling == "an escape" else ""
        wanted = [country + suffix for country in COUNTRIES]
        assert READERS[name](pa.array(messages, pa.binary())).to_pylist() == wanted, spelling


def test_ours_makes_no_mistake():
    rng = random.Random(3)
    assert mistakes(ours, [fuzzed(rng) for _ in range(2000)]) == 0
