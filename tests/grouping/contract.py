"""What every grouping promises, check by check.

A check is a function of ``make`` (workers, perhaps a seed → new router). ``SKIPPED`` names what a scheme can't promise.
"""

import json
import re

import numpy as np
import pyarrow as pa
import pytest

from tests.grouping.attacks import ODD, attacks
from tests.grouping.contract_feedback import with_feedback
from tests.grouping.skewed import Stream, skewed
from unskew.grouping import encode_keys
from unskew.grouping.keys import Keys

# (scheme, check) → reason
SKIPPED: dict[tuple[str, str], str] = {
    (name, "bounded"): "it remembers each key by definition; its option max_keys is the bound (test_sticky.py)"
    for name in ("POTC", "ON_GREEDY", "OFF_GREEDY")
} | {
    ("HOLISTIC", "bounded"): "it has more counters than the check has keys (test_holistic.py)",
    ("PLANNED", "bounded"): "it remembers more replicas than the check makes (test_planned.py)",
    ("PLANNED", "not_cut"): "each call is a batch, which it looks at as a whole",
    ("PLANNED", "not_cut_nor_by_codes"): "each call is a batch, which it looks at as a whole",
}


def routed(router, stream):
    return router.route(stream.keys, times=stream.times, costs=stream.costs)


def in_range(make):
    """One int32 in [0, W) a tuple, up to 10,000 workers."""
    for workers in (2, 7, 100, 10_000):
        stream = skewed()
        answer = routed(make(workers), stream)
        assert answer.dtype == np.int32
        assert answer.shape == (len(stream),)
        assert answer.min() >= 0
        assert answer.max() < workers


def deterministic(make):
    """Equal parameters and streams give equal answers and equal states."""
    one, other = make(10), make(10)
    assert (routed(one, skewed()) == routed(other, skewed())).all()
    assert one.save() == other.save()


def not_cut(make):
    """Routing in pieces, of any size, equals routing at once, in answers and in state."""
    stream = skewed()
    whole = make(10)
    expected = routed(whole, stream)
    for seed in range(3):
        cuts = np.sort(np.random.default_rng(seed).integers(0, len(stream) + 1, 40))
        pieces = make(10)
        got = [routed(pieces, stream.part(a, b)) for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
        assert (np.concatenate(got) == expected).all()
        assert pieces.save() == whole.save()
    single = make(10)
    assert [int(routed(single, stream.part(i, i + 1))[0]) for i in range(300)] == expected[:300].tolist()


def saved(make):
    """A restored router goes on like the saved one, which goes on undisturbed."""
    stream = skewed()
    for cut in (0, 1, 1999, len(stream)):
        whole, first = make(10), make(10)
        routed(whole, stream.part(0, cut))
        expected = routed(whole, stream.part(cut, len(stream)))
        routed(first, stream.part(0, cut))
        state = first.save()
        second = make(10)
        second.load(state)
        assert second.save() == state
        rest = stream.part(cut, len(stream))
        assert (routed(second, rest) == expected).all()
        assert (routed(first, rest) == expected).all()
        assert first.save() == second.save() == whole.save()
        assert second.internals() == whole.internals()


def refuses_other_states(make):
    """A state of other parameters, or no state at all, is refused, and the router stays as it was."""
    router = make(10)
    before = router.save()
    for bad in (make(11).save(), b"", b"nonsense"):
        with pytest.raises(ValueError):
            router.load(bad)
    assert router.save() == before


def empty_and_single(make):
    """No tuples: no answers and no change; one tuple: one answer."""
    router = make(10)
    before = router.save()
    for nothing in ([], pa.array([], pa.string()), np.array([], np.int64), pa.chunked_array([], pa.string())):
        answer = router.route(nothing, times=5, costs=1.0)
        assert answer.shape == (0,)
        assert answer.dtype == np.int32
    assert router.save() == before
    assert router.route(["a"], times=5, costs=1.0).shape == (1,)


def one_worker(make):
    """With one worker, that worker gets all tuples."""
    assert not routed(make(1), skewed()).any()


def one_key(make):
    """A stream of one key is routed."""
    router = make(10)
    answer = router.route(["a"] * 1000, times=np.arange(1000) * 400, costs=1.0)
    assert 0 <= answer.min() <= answer.max() < 10


def all_distinct(make):
    """A stream without a repeated key is routed, and spread: every worker gets less than 5 times its share."""
    stream = Stream([f"key-{i}" for i in range(20_000)], np.arange(20_000) * 20, np.ones(20_000))
    counts = np.bincount(routed(make(10), stream), minlength=10)
    assert counts.max() < 5 * 2000


def any_type(make):
    """Equal keys are equal whatever array they come in: str and bytes, widths of integers, dictionaries, chunks."""
    text = skewed()
    expected = routed(make(10), text)
    strings = pa.array(text.keys)
    for keys in (
        pa.array([k.encode() for k in text.keys]),
        strings.cast(pa.large_string()),
        strings.dictionary_encode(),
        pa.chunked_array([strings[:7], strings[7:].slice(0)]),
        np.array(text.keys),
        np.array(text.keys, dtype=object),
        encode_keys(text.keys),
    ):
        assert (routed(make(10), Stream(keys, text.times, text.costs)) == expected).all(), type(keys)
    numbers = np.array([int(k[1:]) for k in text.keys])
    expected = routed(make(10), Stream(numbers, text.times, text.costs))
    for keys in (numbers.astype(np.int32), numbers.astype(np.uint16), pa.array(numbers), numbers.tolist()):
        assert (routed(make(10), Stream(keys, text.times, text.costs)) == expected).all(), type(keys)


def nulls(make):
    """Nulls are tuples of one key of their own."""
    keys = pa.array([None, "a", None, "b"] * 50)
    answer = make(10).route(keys, times=1, costs=1.0)
    assert answer.shape == (200,)
    assert (make(10).route(keys.dictionary_encode(), times=1, costs=1.0) == answer).all()
    assert make(10).route(pa.nulls(5), times=1, costs=1.0).shape == (5,)


def asks_for_what_it_needs(make):
    """Missing times or costs, or of the wrong length, are named; so is a bad cost, and nothing is routed."""
    router = make(10)
    if router.uses_time:
        with pytest.raises(ValueError, match="times"):
            router.route(["a"], costs=1.0)
        with pytest.raises(ValueError, match="times"):
            router.route(["a"], times=[1, 2], costs=1.0)
    if router.uses_cost:
        with pytest.raises(ValueError, match="costs"):
            router.route(["a"], times=1)
        before = router.save()
        for bad in (float("nan"), float("inf"), -float("inf"), -1.0, 1e101):
            with pytest.raises(
                ValueError, match=rf"^costs has {re.escape(str(bad))}; valid: numbers from 0 to 1e\+100"
            ):
                router.route(["a", "b", "c"], times=1, costs=[1.0, bad, -2.0])
        assert router.save() == before
    if not router.uses_time and not router.uses_cost:
        assert router.route(["a"]).shape == (1,)


def bounded(make):
    """The state doesn't grow with the number of keys seen."""
    router = make(10)
    sizes = []
    for batch in range(6):
        keys = [f"key-{batch}-{i}" for i in range(2000)]
        routed(router, Stream(keys, np.arange(2000) * 20 + batch * 40_000, np.ones(2000)))
        sizes.append(len(router.save()))
    assert sizes[-1] <= 1.05 * sizes[2]


def odd_keys_times_and_costs(make):
    """One answer in [0, W) a tuple, and a restored router goes on as the saved one: see ``Grouping``."""
    for workers in (1, 2, 3, 1000):
        for seed, time, costs in ((0, 0, 0.0), (-1, -(2**63), 5e-324), (2**70, 2**63 - 1, 1e100)):
            router, other = (make(workers, seed=seed) for _ in range(2))
            router.route(ODD * 3, times=time, costs=costs)
            other.load(router.save())
            answers = [one.route(ODD[::-1] * 3, times=np.int64(2**63 - 1), costs=costs) for one in (router, other)]
            assert (answers[0] == answers[1]).all()
            assert router.save() == other.save()
            assert 0 <= answers[0].min() <= answers[0].max() < workers


def not_cut_nor_by_codes(make):
    """Under attack, too, whatever W. A dictionary may hold a key twice, with two codes."""
    n = 3000
    for workers in (1, 2, 1000):
        rng = np.random.default_rng(workers)
        times, costs = np.sort(rng.integers(0, 400_000, n)), rng.lognormal(0, 2, n)
        for attack in ("ever hotter", "hot for every other half window"):
            keys = encode_keys(attacks(workers, n, 700)[attack])
            codes = np.where(rng.random(n) < 0.5, keys.codes, keys.codes + len(keys.hashes)).astype(np.int32)
            twice = Keys(codes, np.tile(keys.hashes, 2), pa.concat_arrays([keys.distinct, keys.distinct]))
            routers = [make(workers) for _ in range(3)]
            expected = routers[0].route(keys, times=times, costs=costs)
            assert (routers[1].route(twice, times=times, costs=costs) == expected).all()
            for cut in np.split(np.arange(n), np.sort(rng.integers(0, n, 15))):
                part = Keys(keys.codes[cut], keys.hashes, keys.distinct)
                assert (routers[2].route(part, times=times[cut], costs=costs[cut]) == expected[cut]).all()
            assert routers[2].save() == routers[0].save()


def shows_itself(make):
    """Internals are JSON, and bounded."""
    router = make(10)
    routed(router, skewed())
    assert len(json.dumps(router.internals())) < 100_000


def is_of_any_source(make):
    """A source's router keeps the parameters, and its answers stay in range."""
    router = make(10)
    same = router.at_source(3)
    assert same is router
    assert routed(router, skewed()).max() < 10


CHECKS = (
    in_range, deterministic, not_cut, saved, refuses_other_states, empty_and_single, one_worker, one_key, all_distinct,
    any_type, nulls, asks_for_what_it_needs, bounded, odd_keys_times_and_costs, not_cut_nor_by_codes, shows_itself,
    is_of_any_source, with_feedback,
)  # fmt: skip
