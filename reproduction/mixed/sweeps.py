"""The sweeps of the routing table paper's figures 8 to 12 and 17 to 21, each done once a process."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from reproduction.mixed.follow import Case, Point, sweep
from reproduction.mixed.workload import Workload
from reproduction.page import Sizing

ALL = ("MIXED", "MINTABLE", "MINMIG", "MIXED_BF", "READJ")
_KEYS = 10_000  # of table 2
#: The brute force version tries as many plans as the table has entries: beyond this many keys, not here.
MOST_KEYS_BY_FORCE = 100_000


def base(settings: Sizing) -> Case:
    """Table 2's defaults."""
    return Case(Workload(keys=settings.of(_KEYS, least=_KEYS), seed=settings.seed))


def intervals(settings: Sizing) -> int:
    """Plans that are averaged; the paper looks at 50 intervals."""
    return settings.of(50, least=3)


def _both_windows(settings: Sizing, name: str, values: Sequence[Any]) -> list[Point]:
    """All schemes with w = 1; MIXED and MINTABLE with w = 5 as well, as in the figures."""
    return [
        *sweep(base(settings), name, values, ALL, intervals(settings)),
        *sweep(base(settings).at(window=5), name, values, ("MIXED", "MINTABLE"), intervals(settings)),
    ]


@cache
def over_workers(settings: Sizing) -> list[Point]:
    """Figure 8."""
    return _both_windows(settings, "workers", (5, 10, 15, 20, 30, 40))


@cache
def over_theta_max(settings: Sizing) -> list[Point]:
    """Figure 9."""
    return _both_windows(settings, "theta_max", (0.0, 0.02, 0.05, 0.08, 0.15, 0.3))


@cache
def over_keys(settings: Sizing) -> list[Point]:
    """Figure 10; up to a million keys, times the scale, but a hundred thousand."""
    values = sorted(
        {*(settings.of(n, least=n) for n in (5_000, 10_000, 100_000)), settings.of(1_000_000, least=100_000)}
    )
    points = _both_windows(settings, "keys", [keys for keys in values if keys <= MOST_KEYS_BY_FORCE])
    schemes = [scheme for scheme in ALL if scheme != "MIXED_BF"]
    for keys in values:
        if keys > MOST_KEYS_BY_FORCE:
            points += sweep(base(settings), "keys", [keys], schemes, intervals(settings))
    return points


@cache
def over_f(settings: Sizing) -> list[Point]:
    """Figure 12."""
    schemes, values = ("MIXED", "MINTABLE", "MIXED_BF", "READJ"), (0.1, 0.2, 0.5, 1.0, 1.5, 2.0)
    return [
        point
        for window in (1, 5)
        for point in sweep(base(settings).at(window=window), "f", values, schemes, intervals(settings))
    ]


@cache
def over_table_max(settings: Sizing) -> list[Point]:
    """Figure 17, in the range where the bound decides something."""
    values = (0, 30, 60, 80, 90, 100, 120, 300, 3000)
    return sweep(base(settings), "table_max", values, ALL, intervals(settings))


@cache
def over_window(settings: Sizing) -> list[Point]:
    """Figure 19."""
    return sweep(base(settings), "window", (1, 5, 10, 15, 20), ALL, settings.of(50, least=20))


@cache
def over_beta(settings: Sizing) -> list[Point]:
    """Figures 20 and 21, 10 adjustments each as there."""
    return sweep(
        base(settings).at(window=5), "beta", (1.0, 1.1, 1.2, 1.3, 1.5, 1.7, 2.0), ("MINMIG",), settings.of(10, least=10)
    )


@cache
def growth(settings: Sizing) -> list[Point]:
    """Figure 18: MINMIG's table over many adjustments."""
    return sweep(base(settings), "theta_max", (0.0, 0.02, 0.08), ("MINMIG",), settings.of(2000, least=200))
