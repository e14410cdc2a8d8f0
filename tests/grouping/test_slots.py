"""The hash table finds what was entered and nothing else, collisions and the zero key included."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unskew.grouping.slots import enter_slot, enter_slots, find_slot, slot_table

# Few low bits differ, so that chains form and wrap around.
keys_that_collide = st.lists(
    st.builds(lambda high, low: (high << 56) + low, st.integers(0, 255), st.integers(0, 3)), unique=True
)


@given(keys_that_collide, st.lists(st.integers(0, 2**64 - 1)))
def test_finds_what_was_entered(entered, others):
    keys = np.array(entered, np.uint64)
    one, all_at_once = slot_table(len(keys)), slot_table(len(keys))
    for slot in range(len(keys)):
        assert find_slot(one, keys, keys[slot]) == -1
        enter_slot(one, keys, slot)
    enter_slots(all_at_once, keys, len(keys))
    assert (one == all_at_once).all()
    for key in [*entered, *others]:
        expected = entered.index(key) if key in entered else -1
        assert find_slot(one, keys, np.uint64(key)) == expected
