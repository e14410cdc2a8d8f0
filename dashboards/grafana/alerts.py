"""The figures above which alerts fire. ``deploy/rules`` alone has them; panels draw them as thresholds."""

import re
from functools import cache

import yaml

from unskew.deploy.servers.stack import RULES


@cache
def expressions() -> dict[str, str]:
    """Alert → its PromQL."""
    files = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in RULES]
    rules = [rule for file in files for group in file["groups"] for rule in group["rules"]]
    return {rule["alert"]: rule["expr"] for rule in rules if "alert" in rule}


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
