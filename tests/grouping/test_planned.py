"""PLANNED: its three guarantees on any batches, for any number of sources, and what it remembers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.grouping import create, encode
from unskew.grouping.hashing import function, homes
from unskew.grouping.keys import Keys
from unskew.grouping.planned import Planned
from unskew.grouping.streams import hot, uniform, zipf


def batch_of(planner, keys, sources=1):
    """Route a batch that S sources share, each with every S-th tuple: the worker of each tuple."""
    chosen = np.empty(len(keys), np.int32)
    own = [slice(source, None, sources) for source in range(sources)]
    for one, workers in zip(own, planner.together([keys[one] for one in own]), strict=True):
        chosen[one] = workers
    return chosen


def most(n, workers, slack):
    """What the docstring promises of a batch of n tuples."""
    return max(-(-n // workers), int((1 + slack) * n / workers + 1e-6))


def replicas_of(keys, chosen):
    """(key, worker) → how many tuples."""
    pairs, number = np.unique(np.stack([keys, chosen]), axis=1, return_counts=True)
    return dict(zip(map(tuple, pairs.T.tolist()), number.tolist(), strict=True))


streams = st.sampled_from(
    [hot(0.0), hot(0.3), hot(0.8, 30), hot(1.0), zipf(0.5, 2000), zipf(1.0, 500), zipf(1.6, 5000), uniform(40_000)]
)
batches = st.lists(st.tuples(streams, st.integers(1, 3000), st.booleans()), min_size=1, max_size=6)


def drawn(some, seed):
    """Batches of keys: each of a stream of its own, as it comes or sorted."""
    for number, (stream, n, clustered) in enumerate(some):
        keys = stream.take(0, n, seed + number)
        yield np.sort(keys) if clustered else keys


options = st.fixed_dictionaries(
    {
        "slack": st.sampled_from([0, 0.02, 0.05, 0.5]),
        "threshold": st.sampled_from([0, 0.01, 0.3]),
        "remember": st.sampled_from([1, 2000, 10**7]),
    }
)


@settings(deadline=None, max_examples=80)
@given(batches, st.integers(1, 90), st.integers(0, 9), options, st.integers(1, 9))
def test_no_worker_gets_more_than_its_cap(some, workers, seed, given_options, sources):
    """In every batch, whatever came before, for every number of sources."""
    planner = Planned(workers, seed=seed, **given_options)
    for keys in drawn(some, seed):
        loads = np.bincount(batch_of(planner, keys, sources), minlength=workers)
        assert loads.max() <= most(len(keys), workers, given_options["slack"])


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


@settings(deadline=None, max_examples=40)
@given(streams, st.integers(1, 3000), st.integers(1, 90), st.integers(0, 9), st.sampled_from([0, 0.05]))
def test_few_replicas_in_the_first_batch(stream, n, workers, seed, slack):
    keys = stream.take(0, n, seed)
    planner = Planned(workers, seed=seed, slack=slack, threshold=0)
    assert len(replicas_of(keys, batch_of(planner, keys))) <= len(np.unique(keys)) + workers - 1


@settings(deadline=None, max_examples=60)
@given(batches, st.integers(1, 40), st.integers(0, 9), st.sampled_from([0, 0.05, 0.2]))
def test_a_replica_is_added_only_where_no_flow_would_do(some, workers, seed, slack):
    """Where a maximum flow has room for a batch at the replicas of its keys, it stays there."""
    planner = Planned(workers, seed=seed, slack=slack, threshold=0)
    replicas = {}
    for number, keys in enumerate(drawn(some, seed)):
        ids, counts = np.unique(keys, return_counts=True)
        at_home = homes(encode(ids).hashes, function(seed), workers)
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
@given(batches, st.integers(1, 40), st.integers(0, 9), st.integers(1, 5), st.booleans())
def test_costs_and_speeds(some, workers, seed, sources, weighted):
    """By cost a worker gets its speed's share, 5 % and a tuple for each of its cut keys more at most."""
    weights = [1.0 + worker % 3 for worker in range(workers)] if weighted else None
    planner = Planned(workers, seed=seed, threshold=0, balance="cost", weights=weights)
    shares = np.full(workers, 1 / workers) if weights is None else np.array(weights) / sum(weights)
    for keys in drawn(some, seed):
        costs = np.random.default_rng(seed).lognormal(0, 1, len(keys))
        own = [slice(source, None, sources) for source in range(sources)]
        quotas = planner.divide([planner.count(keys[one], costs[one]) for one in own])
        routed = [planner.follow(keys[one], quota, costs[one]) for one, quota in zip(own, quotas, strict=True)]
        loads = np.bincount(np.concatenate(routed), np.concatenate([costs[one] for one in own]), workers)
        cut = {key: parts for quota in quotas for key, parts in parts_of(quota).items() if len(parts) > 1}
        at = np.bincount([worker for parts in cut.values() for worker in parts], minlength=workers)
        assert (loads <= (1 + 1e-9) * 1.05 * shares * costs.sum() + costs.max() * at).all()


def parts_of(quotas):
    """Key → the workers that have a part of it."""
    bounds = zip(quotas.keys.tolist(), quotas.firsts, quotas.firsts[1:], strict=False)
    return {key: quotas.workers[first:end].tolist() for key, first, end in bounds}


@pytest.mark.parametrize("sources", [1, 16])
def test_keys_that_come_in_runs_stay_whole(sources):
    """800 keys, one after the other a thousand times each, as in a sorted file: one worker each is enough."""
    keys = np.repeat(np.random.default_rng(0).permutation(800), 1000)
    planner, chosen = Planned(100), []
    for start in range(0, len(keys), 100_000):
        batch = keys[start : start + 100_000]
        chosen.append(batch_of(planner, batch, sources))
        assert np.bincount(chosen[-1], minlength=100).max() <= 1050
    assert len(replicas_of(keys, np.concatenate(chosen))) <= 1.25 * 800


def test_replication_stays_small():
    """No more than BOUNDED_LOAD's, and the same for one source as for sixteen."""
    stream = zipf(1.0, 10_000).take(0, 500_000, seed=0)
    theirs = create("BOUNDED_LOAD", 100, sources=1).route(stream)
    for sources in (1, 16):
        planner = Planned(100)
        ours = np.concatenate(
            [batch_of(planner, stream[at : at + 100_000], sources) for at in range(0, 500_000, 100_000)]
        )
        assert len(replicas_of(stream, ours)) <= len(replicas_of(stream, theirs))


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
    keys = encode(["a", "b"])
    twice = Keys(np.tile([0, 1, 2], 100).astype(np.int32), keys.hashes[[0, 1, 0]], keys.distinct.take([0, 1, 0]))
    planner = Planned(2, slack=0, threshold=0)
    assert np.bincount(planner.route(twice)).tolist() == [150, 150]


@pytest.mark.parametrize(
    ("option", "value"), [("slack", -1), ("threshold", 2), ("remember", 0), ("balance", "time"), ("weights", [1, 2])]
)
def test_bad_parameters_are_named(option, value):
    with pytest.raises(ValueError, match=rf"^{option} is .*; valid: "):
        Planned(3, **{option: value})
