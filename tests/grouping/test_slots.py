"""The hash table finds what was entered and nothing else, collisions and the zero key included."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.grouping.slots import SALT, enter_slot, enter_slots, find_slot, first_probe, slot_table

# Few low bits differ, so that chains form and wrap around.
keys_that_collide = st.lists(
    st.builds(lambda high, low: (high << 56) + low, st.integers(0, 255), st.integers(0, 3)), unique=True
)


@given(keys_that_collide, st.lists(st.integers(0, 2**64 - 1)))
def test_finds_what_was_entered(entered, others):
    keys = np.array(entered, np.uint64)
    one = slot_table(len(keys))
    all_at_once = one.copy()  # with its salt
    for slot in range(len(keys)):
        assert find_slot(one, keys, keys[slot]) == -1
        enter_slot(one, keys, slot)
    enter_slots(all_at_once, keys, len(keys))
    assert (one == all_at_once).all()
    for key in [*entered, *others]:
        expected = entered.index(key) if key in entered else -1
        assert find_slot(one, keys, np.uint64(key)) == expected


@pytest.mark.parametrize(("low", "high"), [(12, 0), (0, 12), (44, 0), (0, 44)])
def test_keys_that_are_chosen_for_their_bits_do_not_meet(low, high):
    """All bits of these keys are random but the ``low`` lowest and the ``high`` highest."""
    bits = 64 - low - high
    keys = np.unique(np.random.default_rng(0).integers(0, 1 << bits, 1000, np.uint64)) << np.uint64(low)
    table = slot_table(len(keys))
    enter_slots(table, keys, len(keys))
    span = len(table) - SALT
    entries = np.flatnonzero(table[:-SALT] >= 0)
    begun = np.array([first_probe(table, span, key) for key in keys[table[entries]]])
    assert ((entries - begun) % span).mean() < 5, "a look-up passes few other keys"
