"""Each planner equals its algorithm in the paper, key for key."""

from hypothesis import given
from hypothesis import strategies as st

from tests.grouping.table import plain_table
from tests.grouping.table.table_cases import planned, streams
from unskew.grouping.table import Llfd, MinMig, MinTable, Mixed, MixedBruteForce, Readj

betas = st.sampled_from([0.5, 1.0, 1.5, 2.0])


@given(streams())
def test_llfd(stream):
    assert planned(Llfd(stream.workers), stream) == plain_table.phases(stream, 0, lambda k: stream.cost[k])


@given(streams())
def test_mintable(stream):
    assert planned(MinTable(stream.workers), stream) == plain_table.mintable(stream)


@given(streams(), betas)
def test_minmig(stream, beta):
    assert planned(MinMig(stream.workers, beta=beta), stream) == plain_table.minmig(stream, beta)


@given(streams(), betas, st.integers(0, 12))
def test_mixed(stream, beta, table_max):
    scheme = Mixed(stream.workers, beta=beta, table_max=table_max)
    assert planned(scheme, stream) == plain_table.mixed(stream, table_max, beta)


@given(streams(most_keys=15), betas, st.integers(0, 6))
def test_mixed_bf(stream, beta, table_max):
    scheme = MixedBruteForce(stream.workers, beta=beta, table_max=table_max)
    assert planned(scheme, stream) == plain_table.mixed_bf(stream, table_max, beta)


@given(streams(most_keys=12), st.sampled_from([0.0, 0.25, 0.5]))
def test_readj(stream, sigma):
    assert planned(Readj(stream.workers, sigma=sigma), stream) == plain_table.readj(stream, sigma)
