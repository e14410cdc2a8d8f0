"""What a planner needs of a scheme, over every scheme that plans batches: for uneven sources, waves, and any W."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.grouping.schemes import SCHEMES, over
from tests.grouping.skewed import LIBRARY, replicas_of
from unskew.grouping import GROUPINGS, create
from unskew.grouping.planned import BatchGrouping

planning = over([(name, options) for name, options in SCHEMES if GROUPINGS[name].batched])

#: A batch: its stream, the tuples of each source's part, and how many sources each wave has.
batches = st.lists(
    st.tuples(
        LIBRARY,
        st.lists(st.one_of(st.just(0), st.integers(1, 30), st.integers(1, 2000)), min_size=1, max_size=6),
        st.lists(st.integers(1, 6), min_size=1, max_size=3),
    ),
    min_size=1,
    max_size=3,
)


class Part:
    """A source's part of a batch."""

    def __init__(self, keys):
        self.keys = keys
        self.costs = (keys % 5).astype(np.float64)

    def at(self, which):
        """The tuples at these positions."""
        part = Part(self.keys[which])
        part.costs = self.costs[which]
        return part


def parts_of(batch, seed):
    stream, sizes, _ = batch
    keys = stream.take(0, sum(sizes), seed) if sum(sizes) else np.empty(0, np.int64)
    return [Part(own) for own in np.split(keys, np.cumsum(sizes)[:-1])]


def waves_of(batch):
    """The sources of each wave: [first, last)."""
    _, sizes, waves = batch
    first, number = 0, 0
    while first < len(sizes):
        last = min(first + waves[number % len(waves)], len(sizes))
        yield first, last
        first, number = last, number + 1


def same(some, others):
    """Whether two counts, or two quotas, are the same."""
    return all(np.array_equal(one, other) for one, other in zip(some, others, strict=True))


def test_it_is_those_that_say_so():
    assert [name for name, scheme in GROUPINGS.items() if scheme.batched] == [
        name for name, scheme in GROUPINGS.items() if issubclass(scheme, BatchGrouping)
    ]


@planning
@settings(max_examples=25)
@given(batches, st.integers(1, 8) | st.integers(1, 1000), st.integers(0, 9))
def test_in_waves(name, options, some, workers, seed):
    """Sources count and follow as the planner does, and a planner goes on in another process after each wave."""

    def make():
        return create(name, workers, seed=seed, **options)

    planner, other, source, stranger = (make() for _ in range(4))
    empty = stranger.save()
    for number, batch in enumerate(some):
        planner.begin()
        other.begin()
        assert planner.added == 0
        parts, added = parts_of(batch, seed + number), 0
        for first, last in waves_of(batch):
            wave = parts[first:last]
            counts = counted(planner, source, wave)
            quotas = planner.wave(counts)
            restored = make()
            restored.load(other.save())
            assert all(same(own, again) for own, again in zip(quotas, restored.wave(counts), strict=True))
            other = restored
            assert planner.save() == other.save()
            assert added <= planner.added == other.added
            assert 0 <= planner.split_count == other.split_count
            added = planner.added
            for part, own in zip(wave, quotas, strict=True):
                follows(planner, stranger, part, own, seed)
            assert (planner.save(), stranger.save()) == (other.save(), empty)


def counted(planner, source, wave):
    """What a source with the planner's state counts: each tuple's load once, in order. To count changes nothing."""
    source.load(planner.for_sources())
    before, loaded = planner.save(), source.save()
    counts = [source.count(part.keys, part.costs) for part in wave]
    for part, own in zip(wave, counts, strict=True):
        assert same(planner.count(part.keys, part.costs), own)
        assert own.tuples == len(part.keys)
        assert own.loads.sum() == (part.costs.sum() if planner.uses_cost else len(part.keys))
        assert (own.keys[1:] > own.keys[:-1]).all()
        assert len(own.keys) == len(own.loads) <= len(part.keys)
    assert (planner.save(), source.save()) == (before, loaded)
    return counts


def follows(planner, stranger, part, quotas, seed):
    """Whoever has the quotas follows them. If tuples are counted, each worker gets as many in another order."""
    chosen = planner.follow(part.keys, quotas, part.costs)
    assert (chosen.dtype, chosen.shape) == (np.int32, part.keys.shape)
    assert ((chosen >= 0) & (chosen < planner.workers)).all()
    assert (stranger.follow(part.keys, quotas, part.costs) == chosen).all()
    other = part.at(np.random.default_rng(seed).permutation(len(part.keys)))
    again = planner.follow(other.keys, quotas, other.costs)
    assert planner.uses_cost or replicas_of(other.keys, again) == replicas_of(part.keys, chosen)


@planning
@settings(max_examples=25)
@given(batches, st.integers(1, 8) | st.integers(1, 1000), st.integers(0, 9))
def test_all_ways_to_route_a_whole_batch_agree(name, options, some, workers, seed):
    """One wave after ``begin``, ``divide``, ``together``; and of one source ``route``."""
    *ways, alone, one = (create(name, workers, seed=seed, **options) for _ in range(5))
    for number, batch in enumerate(some):
        parts = parts_of(batch, seed + number)
        counts = [ways[0].count(part.keys, part.costs) for part in parts]
        ways[0].begin()
        quotas = ways[0].wave(counts)
        assert all(same(own, other) for own, other in zip(quotas, ways[1].divide(counts), strict=True))
        routed = ways[2].route_together([part.keys for part in parts], [part.costs for part in parts])
        for part, own, chosen in zip(parts, quotas, routed, strict=True):
            assert (ways[0].follow(part.keys, own, part.costs) == chosen).all()
        assert ways[0].save() == ways[1].save() == ways[2].save()
        if len(parts[0].keys):
            first = parts[0].keys, parts[0].costs
            assert (alone.route(first[0], costs=first[1]) == one.route_together([first[0]], [first[1]])[0]).all()
            assert alone.save() == one.save()
