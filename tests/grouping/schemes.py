"""The schemes that tests of every scheme run over, with parameters besides the defaults."""

import pytest

from unskew.grouping import GROUPINGS

# Parameters to check besides the defaults.
VARIANTS = {
    "BOUNDED_LOAD": [{"sources": 16}, {"balance": "cost"}, {"window": 500, "slack": 0.01}, {"most_workers": 3}],
    "PLANNED": [
        {"slack": 0, "threshold": 0},
        {"threshold": 0.5, "remember": 500},
        {"balance": "cost"},
        {"most_workers": 3},
    ],
    "PARTIAL_KEY": [{"choices": 5}, {"probe_every": 1000}, {"half_life": 700}],
    "D_CHOICES": [{"threshold": 2, "tolerance": 0.01}, {"half_life": 900, "own_choices": True}],
    "W_CHOICES": [{"threshold": 2}, {"half_life": 900}],
    "HOLISTIC": [{"threshold": 0.05, "tolerance": 0.1}],
    "PORC": [{"tolerance": 0.3, "virtual": 3}, {"half_life": 700}],
    "DALTON": [{"slide": 300, "window": 900, "splits": 3}],
    "POTC": [{"choices": 3, "max_keys": 100}],
    "ON_GREEDY": [{"max_keys": 100}, {"half_life": 300}],
    "OFF_GREEDY": [{"max_keys": 100}],
    "DYNAMIC_KEY": [{"distinct_keys": 20, "warm_up": 1, "check_interval": 0.5, "promotion_period": 1.5}],
    "MIXED": [{"theta_max": 0.0, "window": 1, "report_keys": 50}],
    "CONSISTENT_HASH": [{"method": "halving", "rounds": 5}],
    "POSG": [{"window": 20, "tolerance": 1.0}, {"window": 20, "tolerance": 1.0, "settle": "work"}],
    "DYNAMIC_KEY_DECAY": [{"half_life": 0.5, "distinct_keys": 20, "check_interval": 0.5, "promotion_period": 1.5}],
}
SCHEMES = [(name, options) for name in GROUPINGS for options in ({}, *VARIANTS.get(name, []))]


def over(schemes):
    """Run a test for each of these schemes."""
    ids = [name + "".join(f"-{k}={v}" for k, v in options.items()) for name, options in schemes]
    return pytest.mark.parametrize(("name", "options"), schemes, ids=ids)
