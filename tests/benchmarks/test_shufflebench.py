"""ShuffleBench's rules and events, against the loops of its own program."""

import numpy as np
import pytest

from benchmarks.shufflebench import EVERY, Rules, drawn, events, zipf

CIRCLE = 1 << 63


def hashes(n):
    return np.random.default_rng(3).integers(0, CIRCLE, n, np.uint64)


def matches(value, start, width):
    """RangeBasedMatchingRule.test."""
    return (value - start) % CIRCLE < width


@pytest.mark.parametrize("exponent", [0, 1, 1.5])
def test_a_consumer_gets_the_records_that_its_rule_matches(exponent):
    rules, values = drawn(zipf(300, 8.0, exponent), np.random.default_rng(5)), hashes(400)
    intervals = [(int(start), int(width)) for start, width in zip(*rules, strict=True)]
    assert any(start + width > CIRCLE for start, width in intervals)
    expected = [sum(matches(int(value), *interval) for value in values) for interval in intervals]
    assert rules.received(values).tolist() == expected
    assert max(expected) > 0


def test_an_interval_has_its_first_hash_and_not_its_end():
    last = CIRCLE - 1
    rules = Rules(np.array([5, last], np.uint64), np.array([3, 2], np.uint64))
    of_each = [rules.received(np.array([value], np.uint64)).tolist() for value in (4, 5, 7, 8, last - 1, last, 0, 1)]
    assert of_each == [[0, 0], [1, 0], [1, 0], [0, 0], [0, 0], [0, 1], [0, 1], [0, 0]]


@pytest.mark.parametrize("selectivity", [1.0, 2.5])
def test_a_rule_with_a_selectivity_of_one_matches_all(selectivity):
    assert drawn(np.array([selectivity]), np.random.default_rng(0)).received(hashes(100)).tolist() == [100]


def test_a_rule_matches_its_share_of_the_records():
    share = np.array([0.3, 0.05])
    received = drawn(share, np.random.default_rng(0)).received(hashes(100_000))
    assert received / 100_000 == pytest.approx(share, abs=0.006)  # four standard errors


def test_selectivities_are_those_of_zipf():
    assert zipf(4, 0.2, 0) == pytest.approx([0.05] * 4)
    assert zipf(4, 0.2, 1) == pytest.approx(np.array([12, 6, 4, 3]) / 125)
    assert zipf(1000, 0.2, 1.5).sum() == pytest.approx(0.2)


def test_each_tenth_tuple_is_an_event():
    """As AdvancedStateConsumer counts: to ten, and then from 0 again."""
    received = np.arange(35)
    expected = []
    for n in received:
        count = published = 0
        for _ in range(n):
            count += 1
            if count == EVERY:
                count, published = 0, published + 1
        expected.append(published)
    assert events(received).tolist() == expected
