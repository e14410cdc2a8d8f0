"""The counters of frequent keys keep the error bound that they state, and equal their plain version."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.grouping.plain_frequent import plain_counters
from unskew.grouping.frequent_keys import TAKEN_OFF, USED, make_room, make_sketch
from unskew.grouping.slots import enter_slot, enter_slots, find_slot


def count(sketch, key):
    """Counts as ``route_by_weight`` does (held by the test against its oracle)."""
    slot = find_slot(sketch.table, sketch.key, key)
    if slot < 0:
        slot = sketch.size[USED]
        if slot == len(sketch.key):
            slot = make_room(sketch.key, sketch.counter, sketch.size, sketch.table)
        sketch.key[slot] = key
        enter_slot(sketch.table, sketch.key, slot)
        sketch.size[USED] = slot + 1
    sketch.counter[slot] += 1
    return int(sketch.counter[slot])


streams = st.lists(st.integers(0, 60), max_size=500)


@given(streams, st.integers(1, 40))
def test_equals_the_plain_version_within_its_bound(keys, room):
    sketch = make_sketch(room)
    counted = [count(sketch, np.uint64(key)) for key in keys]
    expected, expected_counted, taken_off = plain_counters(keys, room)
    assert counted == expected_counted
    assert sketch.size[TAKEN_OFF] == taken_off
    size = sketch.size[USED]
    kept = dict(zip(sketch.key[:size].tolist(), sketch.counter[:size].tolist(), strict=True))
    assert kept == expected
    for key, true in Counter(keys).items():
        assert kept.get(key, 0) <= true <= kept.get(key, 0) + sketch.size[TAKEN_OFF]
    assert sketch.size[TAKEN_OFF] <= 2 * len(keys) / room


@given(streams)
def test_rebuilt_from_its_counters(keys):
    one, other = make_sketch(20), make_sketch(20)
    for key in keys[:250]:
        count(one, np.uint64(key))
    for part in ("key", "counter", "size"):
        getattr(other, part)[:] = getattr(one, part)
    enter_slots(other.table, other.key, other.size[USED])
    assert [count(one, np.uint64(k)) for k in keys[250:]] == [count(other, np.uint64(k)) for k in keys[250:]]
