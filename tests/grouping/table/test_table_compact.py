"""The compact representation: nothing is lost but what discretisation loses, and its plans are the oracle's.

HLHE discretisation equals the paper's construction, and keeps its error bound.
"""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.grouping.table import plain_table
from tests.grouping.table.table_cases import records, streams
from unskew.grouping.papers.table_schemes import Llfd, MinTable
from unskew.grouping.table import Mixed
from unskew.grouping.table.compact import discretise_values, expand_groups, group_records

degrees = st.sampled_from([1, 4, 16])


@given(streams(), degrees)
def test_groups_are_the_vectors(stream, degree):
    keys = records(stream)
    groups, group = group_records(keys, degree)
    assert groups.cost[group].tolist() == discretise_values(keys.cost, degree).tolist()
    assert groups.memory[group].tolist() == discretise_values(keys.memory, degree).tolist()
    assert groups.current[group].tolist() == stream.current
    assert groups.home[group].tolist() == stream.home
    assert groups.count.tolist() == np.bincount(group).tolist()
    vectors = set(zip(groups.current, groups.home, groups.cost, groups.memory, strict=True))
    assert len(vectors) == len(groups)


@given(streams(), st.lists(st.integers(1, 4), min_size=30, max_size=30), st.sampled_from(["LLFD", "MINTABLE", "MIXED"]))
def test_planning_with_groups_equals_planning_with_their_keys(stream, counts, name):
    """A group of n keys is treated as n equal keys would be."""
    counts = counts[: len(stream.cost)]
    groups = records(stream, counts)
    each = [k for k, n in enumerate(counts) for _ in range(n)]
    single = plain_table.Stream(
        *([values[k] for k in each] for values in (stream.cost, stream.memory, stream.current, stream.home)),
        stream.workers,
        stream.theta_max,
    )
    scheme, expected = {
        "LLFD": (Llfd(stream.workers), lambda: plain_table.phases(single, 0, lambda k: single.cost[k])),
        "MINTABLE": (MinTable(stream.workers), lambda: plain_table.mintable(single)),
        "MIXED": (Mixed(stream.workers, table_max=9), lambda: plain_table.mixed(single, 9, 1.5)),
    }[name]
    assignment = scheme.assign(groups, groups.limit(float(stream.theta_max)))
    rows = zip(assignment.record, assignment.worker, assignment.count, strict=True)
    planned = sorted((int(r), int(w)) for r, w, n in rows for _ in range(n))
    assert planned == sorted(zip(each, expected(), strict=True))
    assert assignment.loads().tolist() == single.loads(expected())
    assert assignment.table() == single.table(expected())
    assert assignment.migration() == single.migration(expected())


@given(streams(), degrees)
def test_expanded_as_planned(stream, degree):
    """As many keys of each group go to each worker as planned, and those that ψ selects first are the ones to move."""
    keys = records(stream)
    groups, group = group_records(keys, degree)
    scheme = Mixed(stream.workers)
    assignment = scheme.assign(groups, groups.limit(0.0))
    destination = expand_groups(assignment, group, keys.gamma(1.5))
    planned = np.zeros((len(groups), stream.workers), int)
    np.add.at(planned, (assignment.record, assignment.worker), assignment.count)
    named = np.zeros_like(planned)
    np.add.at(named, (group, destination), 1)
    assert (named == planned).all()
    gamma = keys.gamma(1.5)
    for record in range(len(groups)):
        moved = [gamma[k] for k in np.flatnonzero(group == record) if destination[k] != keys.current[k]]
        stayed = [gamma[k] for k in np.flatnonzero(group == record) if destination[k] == keys.current[k]]
        assert not moved or not stayed or min(moved) >= max(stayed)


hlhe_degrees = st.sampled_from([1, 2, 4, 8, 64, 256])


@given(st.lists(st.integers(1, 300), min_size=1, max_size=60), hlhe_degrees)
def test_equals_the_paper(values, degree):
    descending = [*sorted(values, reverse=True), 1]
    assert discretise_values(np.array(descending, np.float64), degree).tolist() == plain_table.discretise(
        descending, degree
    )


@given(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=60), hlhe_degrees)
def test_error_bound(values, degree):
    """Of every prefix, by value: the accumulated deviation is below R times the smallest value."""
    descending = np.sort(np.array(values))[::-1]
    smallest = descending[-1]
    phi = discretise_values(descending, degree)
    rounding = 1e-9 * descending.sum()
    assert np.abs(np.cumsum(descending - phi)).max() <= degree * smallest + rounding
    large = descending >= degree * smallest
    assert (np.abs(phi - descending)[large] <= degree * smallest * (1 + 1e-9)).all()
    assert (np.abs(phi - descending)[~large] <= descending[~large] * (1 + 1e-9)).all()


def test_zeros_and_order_stay():
    values = np.array([0.0, 8, 0, 3, 1])
    phi = discretise_values(values, 4)
    assert phi[[0, 2]].tolist() == [0, 0]
    assert phi[[1, 4]].tolist() == [8, 1]
    assert discretise_values(np.zeros(3), 4).tolist() == [0, 0, 0]
    assert discretise_values(np.empty(0), 4).tolist() == []
