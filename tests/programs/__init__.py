"""Server programs that pip does not install, got once for the tests: InfluxDB and Prometheus, into the user's cache.

`unskew stack` and the tests find them there (`unskew.deploy.servers.influxdb`, `unskew.deploy.servers.prometheus`).
"""

import os
from collections.abc import Callable
from typing import NoReturn, TypeVar

import pytest

from unskew.errors import EnvironmentFault

#: Whether a test fails where it lacks a program, instead of being skipped: `UNSKEW_REQUIRE_SERVERS=1`.
REQUIRED = os.environ.get("UNSKEW_REQUIRE_SERVERS", "") not in {"", "0"}
_T = TypeVar("_T")


def lacking(reason: object) -> NoReturn:
    """Skip the test that lacks a program, or let it fail."""
    (pytest.fail if REQUIRED else pytest.skip)(str(reason))


def found(find: Callable[[], _T]) -> _T:
    """A program, which the test lacks if there is none."""
    try:
        return find()
    except EnvironmentFault as fault:
        lacking(fault)
