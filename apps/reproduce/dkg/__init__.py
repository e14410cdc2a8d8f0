"""The DKG paper (Dalabasmaz and Can, *Dynamic Key Grouping*) again."""

from collections.abc import Callable

from apps.reproduce.dkg.country import half_skew, over_skew, over_workers
from apps.reproduce.report import Report, Settings

EXPERIMENTS: dict[str, Callable[[Settings], Report]] = {
    "skew": over_skew,
    "workers": over_workers,
    "half-skew": half_skew,
}
