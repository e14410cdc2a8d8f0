"""`unskew.Topology` takes durations. It holds no connection until it is started, and no Spark is."""

from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from tests.apps.local_settings import settings
from unskew import Topology
from unskew.apps.settings import DURATIONS, Settings
from unskew.errors import UsageError
from unskew.operators import Distinct


def made(grouping: str = "KEY", **changes: Any) -> Settings:
    return Topology("COUNTRY_SKEW_R80", grouping, topic="t", sources=2, workers=3, **changes).settings


def test_each_duration_is_read():
    given = made(window="1 minute", lateness=timedelta(seconds=3), trigger="500 milliseconds", run_time=7)
    assert (given.window, given.window_ms) == (60.0, 60_000)
    assert (given.lateness, given.trigger, given.run_time) == (3.0, 0.5, 7.0)
    assert made(ttl="1 hour", work=Distinct("value")).ttl == 3600.0
    assert given.max_ahead == made(max_ahead="1 hour").max_ahead
    assert made(run_time=None).run_time is None


def test_what_is_none():
    for window, message in (
        ("soon", "'soon'; valid: a duration of at least 0 s"),
        (timedelta(), "0.0; valid: a number"),
    ):
        with pytest.raises(UsageError, match=f"window is {message}"):
            made(window=window)


def test_a_slide_divides_the_window():
    assert (made().slide_ms, made(window=6).slide_ms) == (15_000, 6000)
    assert made(window="1 minute", slide="1 second").slide_ms == 1000
    assert made(slide=timedelta(seconds=7.5)).slide_ms == 7500
    valid = r"valid for a window of 15 s: its length divided by 1 to 60, in whole milliseconds"
    for slide in (4.0, 30.0, 0.2, 14.9999):
        with pytest.raises(UsageError, match=f"slide is {slide}; {valid}"):
            made(slide=slide)
    for slide in (0.0, -1.0):
        with pytest.raises(UsageError, match=f"slide is {slide}"):
            settings(slide=slide)


def test_the_commands_durations_have_an_end():
    """Python's clocks have no time after the year 9999, and there is no whole number of milliseconds for ``inf``."""
    for name, given in product(DURATIONS, (float("inf"), 3.2e9)):
        with pytest.raises(UsageError, match=f"{name} is {given}; valid: a duration of at most 100 years"):
            settings(**{name: given})


def test_a_groupings_durations_are_recorded_in_seconds():
    """A checkpoint's record is JSON. 15 s is the same run, however it was given."""
    options = {"warm_up": timedelta(seconds=15), "distinct_keys": 7}
    recorded = made("DYNAMIC_KEY", options=options).identity["groupingOptions"]
    assert recorded == {"warm_up": 15.0, "distinct_keys": 7}
