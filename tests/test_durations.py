"""Durations: what is read, and what is refused. No Spark is started; tests/apps asks Spark of the texts."""

from datetime import timedelta

import numpy as np
import pytest

from unskew.apps.operators.loader import import_operator
from unskew.durations import parse_milliseconds, parse_seconds
from unskew.errors import UsageError
from unskew.operators import Distinct, PerKey, Sessions


def test_durations():
    for given, found in (
        (timedelta(hours=1, milliseconds=1), 3600.001),
        (3, 3.0),
        (np.float64(2.5), 2.5),
        ("30", 30.0),
        ("1.5 seconds", 1.5),
        ("1 week 2 days", 777_600.0),
        ("INTERVAL 10 Minutes", 600.0),
        ("  500 milliseconds 250 microseconds ", 0.50025),
        ("2h30min", 9000.0),
        ("90ms", 0.09),
    ):
        assert parse_seconds("gap", given) == pytest.approx(found, rel=1e-12)


def test_what_is_no_duration(subtests):
    for given in (
        *("", " ", "soon", "minutes", "10 fortnights", "2 months", "1 year", "-5 s", "1 hour, 2 minutes", "5 batches"),
        *("1 hour 30", "nan", "1e3", True, None, float("nan"), float("inf"), -1, timedelta(seconds=-1), [3], b"3"),
        10**400,
    ):
        with subtests.test(given=str(given)[:20]):
            with pytest.raises(UsageError) as error:
                parse_seconds("gap", given)
            valid = "valid: a duration of at least 0 s: a timedelta, seconds (30)"
            assert str(error.value).startswith(f"gap is {given!r}; {valid}")


def test_bounds():
    assert parse_milliseconds("gap", "1 millisecond", least=1) == 1
    with pytest.raises(UsageError, match=r"gap is '999 microseconds'; valid: a duration of at least 0\.001 s: "):
        parse_milliseconds("gap", "999 microseconds", least=1)
    assert parse_seconds("gap", 0) == 0
    with pytest.raises(UsageError, match="gap is 0; valid: a duration above 0 s: "):
        parse_seconds("gap", 0, above=True)
    assert parse_seconds("ttl", "5217 weeks") < parse_seconds("ttl", 3_155_760_000), "a clock has no more time"
    for given in (3_155_760_001, 1e300, "5218 weeks", "9" * 30, timedelta.max):
        with pytest.raises(UsageError, match="valid: a duration of at most 100 years"):
            parse_milliseconds("ttl", given)


def test_works_take_durations():
    assert Sessions(gap="10 minutes").gap_ms == Sessions(gap=timedelta(minutes=10)).gap_ms == 600_000
    assert Distinct(within="1 day").ttl_ms == 86_400_000
    schema = {"state": Distinct().state, "results": Distinct().results}
    assert PerKey(lambda *_: ([], {}), **schema, ttl="2 hours").ttl_ms == 7_200_000
    assert import_operator("unskew.operators:Sessions", {"gap": "1 hour 30 minutes"}).ttl_ms == 5_400_001
