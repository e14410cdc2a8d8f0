"""PLANNED: its three guarantees on any batches, for any number of sources, and what it remembers."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.grouping.quotas import goes_to, parts_of
from tests.grouping.skewed import LIBRARY, replicas_of, replication
from unskew.grouping import create, encode_keys
from unskew.grouping.hashing import choose_homes, hash_function
from unskew.grouping.keys import Keys
from unskew.grouping.planned import Planned
from unskew.grouping.planned.counts import bucket_homes
from unskew.grouping.streams import DriftingStream, hot, uniform, zipf


def shared(n, sources, even=True):
    """Which of n tuples each of S sources has: every S-th, or as chance has it, with most at the first source."""
    at = np.arange(n) % sources if even else np.random.default_rng(n).integers(0, sources, n) ** 2 // sources
    return [np.flatnonzero(at == source) for source in range(sources)]


def batch_of(planner, keys, sources=1, even=True):
    """Route a batch that S sources share: the worker of each tuple."""
    chosen = np.empty(len(keys), np.int32)
    own = shared(len(keys), sources, even)
    for one, workers in zip(own, planner.route_together([keys[one] for one in own]), strict=True):
        chosen[one] = workers
    return chosen


def most(n, workers, slack):
    """What the docstring promises of a batch of n tuples."""
    return max(-(-n // workers), int((1 + slack) * n / workers + 1e-6))


batches = st.lists(st.tuples(LIBRARY, st.integers(1, 3000), st.booleans()), min_size=1, max_size=6)


def drawn(some, seed):
    """Batches of keys: each of a stream of its own, as it comes or sorted."""
    for number, (stream, n, clustered) in enumerate(some):
        keys = stream.take(0, n, seed + number)
        yield np.sort(keys) if clustered else keys


options = st.fixed_dictionaries(
    {},
    optional={
        "slack": st.sampled_from([0, 0.02, 0.5]),
        "threshold": st.sampled_from([0, 0.3]),
        "remember": st.sampled_from([1, 2000]),
    },
)


def in_waves(planner, keys, sources, waves, even=True):
    """Route a batch in waves of so many sources. Yields after each the loads so far, and how many tuples these are."""
    own = shared(len(keys), sources, even)
    loads, done, first = np.zeros(planner.workers, np.int64), 0, 0
    planner.begin()
    while first < sources:
        wave = own[first : first + waves[first % len(waves)]]
        first += len(wave)
        for one, quotas in zip(wave, planner.wave([planner.count(keys[one]) for one in wave]), strict=True):
            loads += np.bincount(planner.follow(keys[one], quotas), minlength=planner.workers)
            done += len(one)
        yield loads, done


sizes = st.lists(st.integers(1, 4), min_size=1, max_size=4)


@settings(deadline=None, max_examples=60)
@given(batches, st.integers(1, 1000), st.integers(0, 9), options, st.integers(1, 9), sizes, st.booleans())
def test_each_wave_is_within_the_cap_of_what_is_counted(some, workers, seed, given_options, sources, waves, even):
    """However sources come together; and a router that is restored between two waves plans the same."""
    planner, other = (Planned(workers, seed=seed, **given_options) for _ in range(2))
    for keys in drawn(some, seed):
        for loads, done in in_waves(planner, keys, sources, waves, even):
            assert loads.sum() == done
            assert loads.max() <= most(done, workers, planner.slack)
            planner.load(planner.save())
        assert done == len(keys)
        for _ in in_waves(other, keys, sources, waves, even):
            pass
        assert planner.save() == other.save()


@settings(deadline=None, max_examples=40)
@given(batches, st.integers(1, 90), st.integers(0, 9), st.integers(2, 9))
def test_sources_make_the_plan_of_one(some, workers, seed, sources):
    """However the tuples are divided and ordered: as many of each key to each worker."""
    together, alone = Planned(workers, seed=seed, threshold=0), Planned(workers, seed=seed, threshold=0)
    for keys in drawn(some, seed):
        shuffled = np.random.default_rng(seed).permutation(keys)
        expected = replicas_of(keys, batch_of(alone, keys))
        assert replicas_of(shuffled, batch_of(together, shuffled, sources)) == expected
        assert together.save() == alone.save()


@settings(deadline=None, max_examples=60)
@given(batches, st.integers(1, 90), st.integers(0, 9), st.integers(1, 5))
def test_a_small_key_or_bucket_moves_whole(some, workers, seed, sources):
    """It has at most σ·N/W − 1 tuples: one worker in the first batch, and later at most one more than one replica."""
    planner = Planned(workers, seed=seed)
    for number, keys in enumerate(drawn(some, seed)):
        counts = [planner.count(keys[one]) for one in shared(len(keys), sources)]
        before = present(planner, counts)
        quotas = planner.divide(counts)
        loads = Counter()
        for part in counts:
            loads.update(dict(zip(part.keys.tolist(), part.loads.tolist(), strict=True)))
        small = {key for key, load in loads.items() if load <= 0.05 * len(keys) / workers - 1}
        there = goes_to(planner, counts, quotas)
        for key in small & there.keys():
            assert len(there[key]) <= (2 if number else 1) or len(before[key]) > 1


def present(planner, counts):
    """The replicas, before a batch, of each bucket and each key that is counted alone."""
    keys = np.unique(np.concatenate([part.keys for part in counts]))
    starts, workers, _ = planner._replicas.of(keys, planner._buckets(keys))
    own = zip(keys.tolist(), pairwise(starts), strict=True)
    return {key: set(workers[a:b].tolist()) for key, (a, b) in own}


@settings(deadline=None, max_examples=60)
@given(batches, st.integers(1, 20), st.integers(0, 9), st.sampled_from([0, 0.05]))
def test_where_a_flow_has_room_no_bucket_gets_a_replica(some, workers, seed, slack):
    """At the default threshold buckets take the place of keys that are counted together."""
    planner = Planned(workers, seed=seed, slack=slack)
    for number, keys in enumerate(drawn(some, seed)):
        counts = planner.count(keys)
        before = present(planner, [counts])
        loads = dict(zip(counts.keys.tolist(), counts.loads.astype(int).tolist(), strict=True))
        fits = number and flows(loads, before, workers, most(len(keys), workers, slack))
        for key, parts in parts_of(planner.divide([counts])[0]).items():
            assert not fits or set(parts) <= before[key]


@settings(deadline=None, max_examples=60)
@given(batches, st.integers(1, 1000), st.integers(0, 9), options, st.integers(1, 9))
def test_a_source_gets_no_quota_that_it_does_not_need(some, workers, seed, given_options, sources):
    """Tuples of it go to each part; and one with a single part leads away from home, or its bucket has one."""
    planner = Planned(workers, seed=seed, **given_options)
    for keys in drawn(some, seed):
        own = shared(len(keys), sources, even=False)
        counts = [planner.count(keys[one]) for one in own]
        for one, counted, quotas in zip(own, counts, planner.divide(counts), strict=True):
            encoded = encode_keys(keys[one])
            chosen, of_tuple = planner.follow(encoded, quotas), encoded.hashes[encoded.codes]
            of_tuple = np.where(np.isin(of_tuple, counted.keys), of_tuple, planner._buckets(of_tuple))
            parts = parts_of(quotas)
            for key, home in zip(quotas.keys, bucket_homes(planner._buckets(quotas.keys)).tolist(), strict=True):
                there = parts[int(key)]
                assert set(there) == set(chosen[of_tuple == key].tolist())
                assert there != [home] or int(planner._buckets(np.array([key]))[0]) in parts


@settings(deadline=None, max_examples=60)
@given(batches, st.integers(1, 1000), st.integers(0, 9), options, st.integers(1, 9), sizes)
def test_the_replicas_that_a_batch_adds_are_counted(some, workers, seed, given_options, sources, waves):
    """Over its waves, those where tuples go and their key or bucket had no replica before."""
    planner = Planned(workers, seed=seed, **given_options)
    for keys in drawn(some, seed):
        own, first, found = shared(len(keys), sources, even=False), 0, 0
        planner.begin()
        while first < sources:
            counts = [planner.count(keys[one]) for one in own[first : first + waves[first % len(waves)]]]
            first += len(counts)
            before = present(planner, counts)
            there = goes_to(planner, counts, planner.wave(counts))
            found += sum(len(chosen - before[key]) for key, chosen in there.items())
            assert planner.added == found
            planner.load(planner.save())
            assert planner.added == found, "a driver that goes on knows it"


@settings(deadline=None, max_examples=60)
@given(batches, st.integers(1, 40), st.integers(0, 9), st.sampled_from([0, 0.05, 0.2]))
def test_a_replica_is_added_only_where_no_flow_would_do(some, workers, seed, slack):
    """Where a maximum flow has room for a batch at the replicas of its keys, it stays there."""
    planner = Planned(workers, seed=seed, slack=slack, threshold=0)
    replicas = {}
    for number, keys in enumerate(drawn(some, seed)):
        ids, counts = np.unique(keys, return_counts=True)
        at_home = choose_homes(encode_keys(ids).hashes, hash_function(seed), workers)
        for key, home in zip(ids.tolist(), at_home.tolist(), strict=True):
            replicas.setdefault(key, {home})
        fits = flows(
            dict(zip(ids.tolist(), counts.tolist(), strict=True)), replicas, workers, most(len(keys), workers, slack)
        )
        found = replicas_of(keys, batch_of(planner, keys))
        if number and fits:
            assert all(worker in replicas[key] for key, worker in found)
        for key in {key for key, _ in found} if number == 0 else ():
            replicas[key] = {worker for other, worker in found if other == key}
        for key, worker in found:
            replicas[key].add(worker)


def flows(counts, replicas, workers, cap):
    """Whether so many tuples of each key fit where the key is: tuple by tuple, keys make room (Kuhn's matching)."""
    at = [[] for _ in range(workers)]

    def put(key, tried):
        for worker in replicas[key] - tried:
            tried.add(worker)
            if len(at[worker]) < cap:
                at[worker].append(key)
                return True
            for other in set(at[worker]):
                if other != key and put(other, tried):
                    at[worker][at[worker].index(other)] = key
                    return True
        return False

    return all(put(key, set()) for key, count in counts.items() for _ in range(count))


@settings(deadline=None, max_examples=30)
@given(batches, st.integers(1, 40), st.integers(0, 9), st.sampled_from([0, 0.01, 1]))
def test_tuples_that_cost_nothing_stay_with_their_key(some, workers, seed, threshold):
    """They cause no replica."""
    planner = Planned(workers, seed=seed, threshold=threshold, balance="cost")
    seen = set()
    for keys in drawn(some, seed):
        costs = np.random.default_rng(seed).integers(0, 3, len(keys)) * (keys % 3 > 0)
        chosen = planner.route(keys, costs=costs)
        paid = set(replicas_of(keys[costs > 0], chosen[costs > 0]))
        seen |= paid
        for key in np.setdiff1d(keys, keys[costs > 0]).tolist():  # all of whose tuples cost nothing
            assert len(np.unique(chosen[keys == key])) == 1
        costly = np.isin(keys, keys[costs > 0])
        assert set(replicas_of(keys[costly], chosen[costly])) == paid


def test_a_key_that_costs_nothing_for_a_batch_stays_where_it_is():
    """The hot key's workers don't become more, although its home isn't among them."""
    planner = Planned(4, balance="cost", seed=3)
    keys = np.repeat(np.arange(4), 100)
    first = planner.route(keys, costs=np.ones(400))
    assert first.tolist() == planner.route(keys, costs=np.zeros(400)).tolist()
    assert len(np.unique(first)) == 4


def test_a_wave_that_costs_nothing_when_all_workers_are_full():
    """Without slack, rounding then left a sum of caps below 0, and the planner answered no more."""
    keys = np.repeat(np.arange(5), 10)
    for seed in range(20):
        planner = Planned(7, slack=0, balance="cost")
        planner.begin()
        planner.wave([planner.count(keys, np.random.default_rng(seed).random(50))])
        added = planner.added
        assert added >= 3, "some of the 5 keys are split"
        counts = planner.count(keys, np.zeros(50))
        chosen = planner.follow(keys, planner.wave([counts])[0], np.zeros(50))
        assert 0 <= chosen.min() <= chosen.max() < 7
        assert planner.added == added


@pytest.mark.parametrize(("seed", "sources"), [(1, 1), (2, 16), (5, 1)])
def test_keys_of_a_full_home_stay_whole(seed, sources):
    """4,096 equal keys, W = 10: by hash alone some homes have 7 % more than their share."""
    keys = uniform(4096).take(0, 2_000_000, seed)
    planner = Planned(10, seed=seed)
    chosen = np.concatenate([batch_of(planner, batch, sources) for batch in np.split(keys, 20)])
    assert replication(keys, chosen) <= 1.02


@pytest.mark.parametrize("sources", [1, 16])
@pytest.mark.parametrize(("begin", "batch"), [(0, 100_000), (500, 99_000)])
def test_keys_that_come_in_runs_stay_whole(sources, begin, batch):
    """800 keys, one after the other a thousand times each, as in a sorted file: one worker each is enough."""
    keys = np.repeat(np.random.default_rng(0).permutation(800), 1000)[begin:]
    keys = keys[: len(keys) // batch * batch]
    planner, chosen = Planned(100), []
    for start in range(0, len(keys), batch):
        part = keys[start : start + batch]
        chosen.append(batch_of(planner, part, sources))
        assert np.bincount(chosen[-1], minlength=100).max() <= most(len(part), 100, 0.05)
    assert replication(keys, np.concatenate(chosen)) <= 1.05


@pytest.mark.parametrize("sources", [1, 16])
@pytest.mark.parametrize("drift", [0, 100])
def test_replication_is_no_more_than_that_of_bounded_load(drift, sources):
    """Also where ranks move on by 1 % of the keys in each batch."""
    keys = DriftingStream(zipf(1.0, 10_000), 10_000, 100_000, drift).take(0, 1_000_000, 0)
    theirs = create("BOUNDED_LOAD", 100, sources=1).route(keys)
    planner = Planned(100)
    ours = np.concatenate([batch_of(planner, batch, sources) for batch in np.split(keys, 10)])
    assert replication(keys, ours) <= replication(keys, theirs)


def test_replicas_that_are_not_used_are_forgotten():
    planner = Planned(10, remember=5000)
    batch_of(planner, hot(0.8).take(0, 2000))
    assert planner.internals()["split"] == 1
    assert max(planner.internals()["workers"]) >= 8
    for start in range(0, 8000, 2000):
        batch_of(planner, 1000 + uniform(50).take(start, start + 2000))
    remembered = planner.internals()["remembered"]
    batch_of(planner, np.arange(1_000_000, 1_002_000))
    assert max(planner.internals()["workers"], default=0) < 8
    assert planner.internals()["split"] <= remembered


def test_what_is_remembered_is_bounded():
    """However many keys have been exceptions: 16 · W + 4096 replicas."""
    planner = Planned(4, slack=0, threshold=0)
    for number in range(12):
        batch_of(planner, 10_000 * number + uniform(4000).take(0, 8000, number))
    assert planner.internals()["remembered"] <= 16 * 4 + 4096
    sizes = [len(planner.save())]
    for number in range(12, 20):
        batch_of(planner, 10_000 * number + uniform(4000).take(0, 8000, number))
        sizes.append(len(planner.save()))
    assert max(sizes) <= 20 * (16 * 4 + 4096) + 2000


def test_a_dictionary_may_hold_a_key_twice():
    """Keys are told apart by their hashes: 100 tuples of one key under two codes have one quota."""
    keys = encode_keys(["a", "b"])
    twice = Keys(np.tile([0, 1, 2], 100).astype(np.int32), keys.hashes[[0, 1, 0]], keys.distinct.take([0, 1, 0]))
    planner = Planned(2, slack=0, threshold=0)
    assert np.bincount(planner.route(twice)).tolist() == [150, 150]


@settings(deadline=None, max_examples=60)
@given(batches, st.integers(1, 100), st.integers(1, 12), st.integers(0, 9), options, st.integers(1, 5), sizes)
def test_no_key_has_more_workers_than_it_may(some, workers, most_workers, seed, given_options, sources, waves):
    """Ever, of all sources; also those that plan alone. With the largest number nothing changes."""
    made = {"workers": workers, "seed": seed, **given_options}
    planner, alone = (Planned(**made, most_workers=most_workers) for _ in range(2))
    free, largest = Planned(**made), Planned(**made, most_workers=max(most_workers, workers))
    had = {}
    for keys in drawn(some, seed):
        chosen = [batch_of(planner, keys, sources), alone.route(keys)]
        for loads, done in in_waves(planner, keys, sources, waves):
            assert loads.sum() == done
        chosen.append(batch_of(planner, keys, sources, even=False))
        for routes in chosen:
            for key, worker in np.unique(np.stack([keys, routes]), axis=1).T.tolist():
                had.setdefault(key, set()).add(worker)
        assert (batch_of(free, keys, sources) == batch_of(largest, keys, sources)).all()
    assert max(map(len, had.values())) <= most_workers


@pytest.mark.parametrize("sources", [1, 16])
@pytest.mark.parametrize("most_workers", [2, 4])
def test_a_noisy_tenant_waits_at_its_own_workers(most_workers, sources):
    """It has 1.3 times their share. Its excess is divided between them, and other workers are within their caps."""
    planner = Planned(20, most_workers=most_workers)
    for number in range(4):
        keys = hot(1.3 * most_workers / 20, 4096).take(0, 100_000, number)
        chosen = batch_of(planner, keys, sources)
        tenants = np.unique(chosen[keys == 0])
        assert len(tenants) == most_workers
        loads = np.bincount(chosen, minlength=20)
        # Of two workers each, some keys find none with room.
        assert np.delete(loads, tenants).max() <= most(100_000, 20, 0.05 if most_workers > 2 else 0.15)
        assert loads[tenants].max() <= 1.4 * 5000
        assert np.isin(chosen[keys > 0], tenants).mean() <= 0.01
        assert planner.internals()["excess"] == np.maximum(0, loads - most(100_000, 20, 0.05)).sum() > 0
        assert planner.internals()["capped"] >= 1
