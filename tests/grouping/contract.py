"""What every grouping promises: ``check_grouping`` runs it all on one scheme.

A check is a function of ``make`` (workers → new router). ``SKIPPED`` names what a scheme can't promise, and why.
"""

import json
import re

import numpy as np
import pyarrow as pa
import pytest

from tests.grouping.contract_feedback import with_feedback
from tests.grouping.skewed import Stream, skewed
from unskew.grouping import create, encode

# (scheme, check) → reason
SKIPPED: dict[tuple[str, str], str] = {
    (name, "bounded"): "it remembers each key by definition; its option max_keys is the bound (test_sticky.py)"
    for name in ("POTC", "ON_GREEDY", "OFF_GREEDY")
} | {
    ("HOLISTIC", "bounded"): "it has more counters than the check has keys (test_holistic.py)",
    ("PLANNED", "bounded"): "it remembers more replicas than the check makes (test_planned.py)",
    ("PLANNED", "not_cut"): "each call is a batch, which it looks at as a whole",
}


def check_grouping(name, **options):
    """Run every check of the contract on one scheme; for schemes that aren't in the registry."""
    for check in CHECKS:
        if (name, check.__name__) not in SKIPPED:
            check(lambda workers: create(name, workers, **options))


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
        encode(text.keys),
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


def shows_itself(make):
    """Internals are JSON, and bounded."""
    router = make(10)
    routed(router, skewed())
    assert len(json.dumps(router.internals())) < 100_000


def differs_by_source_only_in_turn(make):
    """A source's router keeps the parameters, and its answers stay in range."""
    router = make(10)
    same = router.at_source(3)
    assert same is router
    assert routed(router, skewed()).max() < 10


CHECKS = (
    in_range,
    deterministic,
    not_cut,
    saved,
    refuses_other_states,
    empty_and_single,
    one_worker,
    one_key,
    all_distinct,
    any_type,
    nulls,
    asks_for_what_it_needs,
    bounded,
    shows_itself,
    differs_by_source_only_in_turn,
    with_feedback,
)
