"""The DKG paper (Dalabasmaz and Can, *Dynamic Key Grouping*) again."""

from collections.abc import Callable

from reproduction.dkg.country import half_skew, over_skew, over_workers
from reproduction.page import Report, Sizing

EXPERIMENTS: dict[str, Callable[[Sizing], Report]] = {
    "skew": over_skew,
    "workers": over_workers,
    "half-skew": half_skew,
}
