"""The figures above which alerts fire. ``deploy/rules`` alone has them; panels draw them as thresholds."""

import re
from functools import cache
from typing import Any

import yaml

from unskew.deploy.servers.stack import RULES


@cache
def _rules() -> dict[str, dict[str, Any]]:
    """Alert → its rule."""
    files = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in RULES]
    rules = [rule for file in files for group in file["groups"] for rule in group["rules"]]
    return {rule["alert"]: rule for rule in rules if "alert" in rule}


def expressions() -> dict[str, str]:
    """Alert → its PromQL."""
    return {alert: rule["expr"] for alert, rule in _rules().items()}


def annotations() -> dict[str, dict[str, str]]:
    """Alert → its texts, and its ``runbook_url``."""
    return {alert: rule["annotations"] for alert, rule in _rules().items()}


def figure(alert: str) -> float:
    """The number that the alert's last comparison has, in Prometheus' base units.

    Raises
    ------
    KeyError
        There is no such alert.
    ValueError
        Its expression doesn't end with ``>`` and a number.

    >>> figure("FallingBehind"), figure("LateRising")
    (60.0, 0.01)
    """
    found = re.search(r"> ([\d.e+-]+)$", expressions()[alert].strip())
    if found is None:
        raise ValueError(f"{alert} doesn't end with a number to compare with: {expressions()[alert]}")
    return float(found[1])
