"""The least greatest load for given places, as evidence/balance/planned.md shows it, beside all sets of workers."""

import numpy as np
import pytest

from evidence.balance.reachable import Places, level_loads


def least(workers, loads, owns):
    """By duality: of all sets of workers, the greatest load that can only be there over their number."""
    found = 0.0
    for chosen in range(1, 1 << workers):
        inside = [w for w in range(workers) if chosen >> w & 1]
        only = sum(load for load, own in zip(loads, owns, strict=True) if set(own) <= set(inside))
        found = max(found, only / len(inside))
    return found


def test_it_is_that_of_all_sets_of_workers():
    for rng in map(np.random.default_rng, range(200)):
        workers, keys = int(rng.integers(1, 8)), int(rng.integers(1, 9))
        loads = rng.integers(1, 60, keys).astype(np.float64)
        owns = [rng.choice(workers, int(rng.integers(1, workers + 1)), replace=False) for _ in range(keys)]
        ends = np.cumsum([0, *map(len, owns)])
        found = level_loads(loads, ends[:-1], ends[1:], np.concatenate(owns).astype(np.int64), workers)
        assert found.sum() == pytest.approx(loads.sum())
        assert found.max() == pytest.approx(least(workers, loads, owns), abs=1e-3 * loads.sum() / workers)


def test_places_are_those_of_this_batch_and_of_earlier_ones():
    places = Places(2)
    for codes, workers, least in (
        ([0, 0, 1, 1], [0, 0, 1, 1], 1),  # key 0 is at worker 0, key 1 at worker 1
        ([0, 0, 0, 1], [0, 0, 0, 1], 1.5),  # three of four tuples can be at one worker only
        ([0, 0, 0, 0], [0, 0, 0, 1], 1),  # now key 0 has got a second worker
        ([0, 0, 0, 1], [0, 0, 0, 1], 1),  # and it still has it
    ):
        found = places.reachable(np.array(codes, np.int32), np.array(workers, np.int32))
        assert found == pytest.approx(least, abs=1e-3)
