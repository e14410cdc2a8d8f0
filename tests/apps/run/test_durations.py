"""`unskew.Topology` takes durations. It holds no connection until it is started, and no Spark is."""

from dataclasses import fields
from datetime import timedelta
from typing import Any, cast

import pytest

from unskew import Topology
from unskew.apps.topology.settings import DURATIONS, Settings
from unskew.deploy.kafka.connection import Connection
from unskew.errors import UsageError
from unskew.works import Distinct


def made(grouping: str = "KEY", **settings: Any) -> Settings:
    return Topology("COUNTRY_SKEW_R80", grouping, topic="t", sources=2, workers=3, **settings).settings


def test_each_duration_is_read():
    given = made(window="1 minute", lateness=timedelta(seconds=3), trigger="500 milliseconds", run_time=7)
    assert (given.window, given.window_ms) == (60.0, 60_000)
    assert (given.lateness, given.trigger, given.run_time) == (3.0, 0.5, 7.0)
    assert made(ttl="1 hour", work=Distinct("value")).ttl == 3600.0
    assert given.max_ahead == made(max_ahead="1 hour").max_ahead
    assert made(run_time=None).run_time is None


def test_all_settings_in_seconds_are_durations():
    """A cost in milliseconds says so in its name."""
    kinds = {f.name: getattr(f.type, "__origin__", f.type) for f in fields(Settings)}
    found = tuple(name for name, kind in kinds.items() if kind in (float, float | None))
    assert found == ("process_ms", *DURATIONS)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"window": "soon"}, "window is 'soon'; valid: a duration of at least 0 s: a timedelta, seconds"),
        ({"window": timedelta()}, "window is 0.0; valid: a number above 0"),
        ({"window": "1 microsecond"}, "window is 1e-06; valid: whole milliseconds"),
        ({"lateness": -1}, "lateness is -1; valid: a duration of at least 0 s"),
    ],
)
def test_what_is_none(given, message):
    with pytest.raises(UsageError, match=message):
        made(**given)


@pytest.mark.parametrize("name", DURATIONS)
@pytest.mark.parametrize("given", [float("inf"), 3.2e9])
def test_the_commands_durations_have_an_end(name, given):
    """Python's clocks have no time after the year 9999, and there is no whole number of milliseconds for ``inf``."""
    of = ("LOCAL", "COUNTRY_SKEW_R80", "KEY", "t", 2, 3, "x0", Connection(""), "")
    with pytest.raises(UsageError, match=f"{name} is {given}; valid: a duration of at most 100 years"):
        Settings(*of, **cast("Any", {name: given}))


def test_a_groupings_durations_are_recorded_in_seconds():
    """A checkpoint's record is JSON. 15 s is the same run, however it was given."""
    options = {"warm_up": timedelta(seconds=15), "distinct_keys": 7}
    recorded = made("DYNAMIC_KEY", options=options).identity["groupingOptions"]
    assert recorded == {"warm_up": 15.0, "distinct_keys": 7}
