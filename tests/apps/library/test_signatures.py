"""The library's three functions have the same arguments with the same defaults. No Spark is started."""

from dataclasses import fields
from inspect import signature
from typing import Any, cast

import pytest

import unskew
from unskew import balance, balanced_map, keyed_map
from unskew.apps.checkpoint.location import resolve_location
from unskew.apps.library.route_options import RouteOptions
from unskew.errors import UsageError
from unskew.grouping import GROUPINGS, get_parameters
from unskew.operators import Statistics

FUNCTIONS = (balance, balanced_map, keyed_map)


def test_the_same_name_has_the_same_default():
    """A keyed operator can't go without a checkpoint; it refuses the default."""
    defaults = [{name: p.default for name, p in signature(function).parameters.items()} for function in FUNCTIONS]
    for name in set.union(*map(set, defaults)):
        assert len({each[name] for each in defaults if name in each}) == 1, name
    assert all(each["checkpoint"] is None for each in defaults)
    for checkpoint in (None, ""):  # which Spark would resolve to its working directory
        with pytest.raises(UsageError, match=f"checkpoint is {checkpoint!r}; valid: the query's checkpointLocation"):
            resolve_location(cast("Any", None), checkpoint)


def test_shared_arguments_stand_in_one_order():
    """The functions give them to ``RouteOptions`` by their places."""
    shared = [field.name for field in fields(RouteOptions)]
    assert [name for name in signature(balance).parameters if name in shared] == shared


#: What a function gives to the groupings that have it, under the same name.
GIVEN = {"sources", "weights", "most_workers"}


def test_no_argument_hides_a_groupings_own_parameter():
    own = set().union(*map(get_parameters, GROUPINGS)) - GIVEN
    assert "window" in own
    for function in FUNCTIONS:
        assert not own & signature(function).parameters.keys(), function


@pytest.mark.parametrize("window", [1, "10 minutes"])
def test_a_window_that_could_be_either_is_refused(window):
    """The grouping's own one is how far back it looks; a state's is how long it lives."""
    with pytest.raises(UsageError, match=f"window is {window!r}, .*; valid: window_length=.* ttl="):
        keyed_map(cast("Any", None), "user", 4, Statistics("value"), "MIXED", window=window)


def test_errors_are_one_family():
    assert issubclass(unskew.UsageError, ValueError)
    assert all(issubclass(each, unskew.UserError) for each in (unskew.UsageError, unskew.EnvironmentFault))
