"""Finds a panel's overrides as Grafana does: a later one wins."""

import re
from collections.abc import Mapping
from typing import Any


def find_override(panel: Mapping[str, Any], name: str, setting: str) -> Any:
    """A panel's override of a setting for the series or column of a name, or None."""
    found = None
    for override in panel["fieldConfig"]["overrides"]:
        if _matches(override["matcher"], name):
            for one in override["properties"]:
                found = one["value"] if one["id"] == setting else found
    return found


def _matches(matcher: Mapping[str, str], name: str) -> bool:
    if matcher["id"] != "byRegexp":
        return matcher["options"] == name
    # Grafana searches for a pattern between slashes. Without them the whole name must match.
    if between := re.fullmatch("/(.*)/", matcher["options"]):
        return bool(re.search(between[1], name))
    return bool(re.fullmatch(matcher["options"], name))
