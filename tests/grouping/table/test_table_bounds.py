"""What the paper proves or promises of its algorithms."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.grouping.table import plain_table
from tests.grouping.table.table_cases import perfect, planned, streams
from unskew.grouping.table import Llfd, MinTable, Mixed, MixedBruteForce


@given(perfect(), st.sampled_from([Llfd, MinTable]))
def test_theorem_1(stream, scheme):
    """If a perfect assignment exists and c(k1) < L̄, no worker ends more than (1 − 1/W)/3 above the mean."""
    loads = stream.loads(planned(scheme(stream.workers), stream))
    mean = Fraction(sum(loads), stream.workers)
    assert max(loads) <= mean * (1 + Fraction(1, 3) * (1 - Fraction(1, stream.workers)))


@given(perfect())
def test_lemma_3(stream):
    """So it is for Algorithm 5, of which the paper proves it."""
    loads = stream.loads(plain_table.simple(stream))
    mean = Fraction(sum(loads), stream.workers)
    assert max(loads) <= mean * (1 + Fraction(1, 3) * (1 - Fraction(1, stream.workers)))


@given(streams())
def test_loads_within_theta_max(stream):
    """No load is above L_max, unless a key fitted nowhere; and then by no more than that key on top of the mean."""
    mean = Fraction(sum(stream.cost), stream.workers)
    for scheme in (Llfd, MinTable, Mixed):
        destination = planned(scheme(stream.workers), stream)
        for d, load in enumerate(stream.loads(destination)):
            heaviest = max((c for c, w in zip(stream.cost, destination, strict=True) if w == d), default=0)
            assert load <= max(stream.limit, mean + heaviest)


@given(streams(), st.integers(0, 30))
def test_small_keys_always_balance(stream, theta):
    """Keys lighter than θmax·L̄ leave no worker above L_max: the least loaded one takes each of them."""
    stream.theta_max = Fraction(theta, 10)
    mean = Fraction(sum(stream.cost), stream.workers)
    if max(stream.cost) <= stream.theta_max * mean:
        for scheme in (Llfd(stream.workers), MinTable(stream.workers), Mixed(stream.workers)):
            assert max(stream.loads(planned(scheme, stream))) <= stream.limit


@given(streams(), st.integers(0, 12))
def test_table_bound(stream, table_max):
    """MIXED's table fits, or is MINTABLE's; MIXED_BF's likewise."""
    for scheme in (Mixed, MixedBruteForce):
        destination = planned(scheme(stream.workers, table_max=table_max), stream)
        if stream.table(destination) > table_max:
            assert destination == plain_table.mintable(stream)


@given(streams(), st.integers(0, 12))
def test_brute_force_migrates_no_more(stream, table_max):
    fast = planned(Mixed(stream.workers, table_max=table_max), stream)
    best = planned(MixedBruteForce(stream.workers, table_max=table_max), stream)
    if stream.table(fast) <= table_max and max(stream.loads(fast)) <= stream.limit:
        assert stream.migration(best) <= stream.migration(fast)


@given(streams())
def test_nothing_to_do(stream):
    """While no worker is overloaded LLFD moves nothing."""
    if max(stream.loads(stream.current)) <= stream.limit:
        assert planned(Llfd(stream.workers), stream) == stream.current


def test_theorem_4_fails():
    """Algorithm 5 gets 7, 5, 5, 1 to 8 and 10; MIXED can exchange nothing for the 7, and ends at 11 and 7."""
    stream = plain_table.Stream([7, 5, 5, 1], [1] * 4, [1, 0, 1, 0], [1, 0, 1, 0], 2)
    assert stream.loads(plain_table.simple(stream)) == [8, 10]
    assert stream.loads(planned(Mixed(2), stream)) == [11, 7]


@given(streams())
def test_keys_above_the_limit_get_workers_to_themselves(stream):
    """Keys without cost aside."""
    heavy = [k for k, cost in enumerate(stream.cost) if cost > stream.limit]
    destination = planned(Llfd(stream.workers), stream)
    for k in heavy:
        together = [o for o, d in enumerate(destination) if d == destination[k] and o != k and stream.cost[o] > 0]
        assert not together


@pytest.mark.parametrize("costs", [[100, 1, 1], [100, 99, 1], [50, 30, 10, 9, 8]])
def test_a_key_that_fits_nowhere(costs):
    """The highest load is as low as can be, and another plan keeps the key where it is."""
    stream = plain_table.Stream(costs, [1] * len(costs), [0] * len(costs), [0] * len(costs), 3)
    destination = planned(Llfd(3), stream)
    assert max(stream.loads(destination)) == costs[0]
    stream.current = destination
    assert planned(Llfd(3), stream)[0] == destination[0]
