"""What needs feedback from the workers is refused wherever no driver closes the loop, and runs in a topology."""

import re
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.apps.local_settings import settings
from unskew.apps.cli import option_groups
from unskew.apps.library.balance import balance, balanced_map
from unskew.errors import UsageError
from unskew.grouping import GROUPINGS, create, create_standalone
from unskew.grouping.registry import STANDALONE

NEEDY = ["MIXED", "POSG", "CONSISTENT_HASH", "FULL_KNOWLEDGE", "LLFD"]
CASES = [*((name, {}) for name in NEEDY), ("PARTIAL_KEY", {"probe_every": 1000})]

#: A DataFrame that isn't looked at.
FRAME = cast("Any", SimpleNamespace(isStreaming=False, sparkSession=None))


@pytest.mark.parametrize(("name", "own"), CASES)
def test_refused_with_the_same_line_everywhere(name, own):
    messages = set()
    for refused, how in (
        (ValueError, lambda: create_standalone(name, 3, **own)),
        (ValueError, lambda: balance(FRAME, "key", 3, name, **own)),
        (ValueError, lambda: balanced_map(FRAME, "key", 3, iter, "n long", name, **own)),
    ):
        with pytest.raises(refused) as error:
            how()
        messages.add(str(error.value))
    (line,) = messages
    assert line.startswith(f"{name} with probe_every 1000 needs" if own else f"{name} needs")
    assert "`topology`, `compare` and `simulate` give; here valid: SHUFFLE, " in line
    assert ("`keyed_map` over a stream with a checkpoint" in line) == ("feedback" in line)
    assert "\n" not in line
    assert not any(f" {other}," in line for other in NEEDY)


def test_where_costs_are_known_feedback_alone_is_refused():
    """As by a producer, which knows what its messages count."""
    assert create_standalone("FULL_KNOWLEDGE", 3, costs=True).uses_cost
    for name in sorted({*NEEDY} - {"FULL_KNOWLEDGE"}):
        with pytest.raises(ValueError, match=f"^{name} needs feedback from the workers, which"):
            create_standalone(name, 3, costs=True)


def test_costs_weights_caps_and_sources_that_do_not_fit(subtests):
    """Before the DataFrame is looked at."""
    capped, costed = "BOUNDED_LOAD, PLANNED", "FULL_KNOWLEDGE, BOUNDED_LOAD, PLANNED"
    for grouping, given, line in (
        ("KEY", {"cost": "bytes"}, f"KEY can't use a cost; valid: {costed}"),
        ("MIXED", {"cost": "bytes"}, f"MIXED can't use a cost; valid: {costed}"),
        (
            *("planned", {"cost": "bytes", "balance": "tuples"}),
            "balance is 'tuples', but a cost is given; valid: 'cost', or no balance",
        ),
        ("PLANNED", {"balance": "cost"}, "PLANNED with balance cost needs each tuple's cost: give its column as cost="),
        ("SHUFFLE", {"weights": [1, 2, 1]}, f"SHUFFLE can't use weights; valid: {capped}"),
        ("BOUNDED_LOAD", {"weights": 2}, "weights is 2; valid: a number above 0 for each worker"),
        ("BOUNDED_LOAD", {"weights": [1, 2]}, "weights is [1.0, 2.0]; valid: a number above 0 for each of 3 workers"),
        ("KEY", {"most_workers": 2}, f"KEY can't use most_workers; valid: {capped}"),
        ("BOUNDED_LOAD", {"most_workers": 0}, "most_workers is 0; valid: an integer of at least 1"),
        ("BOUNDED_LOAD", {"sources": 0}, "sources is 0; valid: an integer of at least 1"),
    ):
        for function, more in ((balance, ()), (balanced_map, (iter, "n long"))):
            with subtests.test(line), pytest.raises(ValueError, match=f"^{re.escape(line)}$"):
                function(FRAME, "key", 3, *more, grouping, **given)


def test_a_topology_runs_them():
    for name, own in CASES:
        costs = {"key_costs": "1..64"} if name == "FULL_KNOWLEDGE" else {}
        assert settings(grouping=name, options=own, **costs).grouping == name
        assert option_groups.spell_grouping(name.lower()) == name


def test_an_unknown_name_is_told_what_can_be_run():
    with pytest.raises(UsageError, match=r"unknown grouping 'HASH'; valid: SHUFFLE, KEY, [A-Z_, ]+") as error:
        option_groups.spell_grouping("HASH")
    assert all(f" {name}" in str(error.value) for name in NEEDY)
    with pytest.raises(ValueError, match=r"unknown grouping 'HASH'; valid: SHUFFLE, KEY, [A-Z_, ]+") as refusal:
        create_standalone("HASH")
    assert not any(f" {name}" in str(refusal.value) for name in NEEDY)


def test_none_that_is_offered_is_refused():
    assert set(STANDALONE) == {
        name for name in GROUPINGS if create(name, 4).controller() is None and name != "FULL_KNOWLEDGE"
    }
    for name in STANDALONE:
        assert create_standalone(name.lower(), 4).name == name
