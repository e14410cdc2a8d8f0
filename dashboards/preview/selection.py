"""The selection above a dashboard: time range and variables' values. Queries get it as Grafana would insert it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from unskew.errors import UsageError

#: The intervals of a panel's points that Grafana rounds to (s).
_STEPS = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_SCRAPED = 2  # seconds between scrapes, as the provisioned data source has it
_POINTS = 60  # that fit in a column of the grid
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True)
class Selection:
    """The time range, and the values of the variables."""

    #: The ends of the time range, with a time zone.
    start: datetime
    stop: datetime
    #: Variable → selected values. If the variable is missing or has none, all are selected.
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def interval(self, width: int) -> int:
        """The seconds that one point stands for, in a panel of ``width`` columns."""
        exact = (self.stop - self.start).total_seconds() / (width * _POINTS)
        return next((step for step in _STEPS if step >= exact), _STEPS[-1])

    def in_flux(self, query: str, bucket: str, width: int) -> str:
        """A query of a panel of that width, in columns of the grid, as Grafana sends it to InfluxDB."""
        literals = {
            "timeRangeStart": _flux_time(self.start),
            "timeRangeStop": _flux_time(self.stop),
            "windowPeriod": f"{self.interval(width)}s",
            "defaultBucket": f'"{bucket}"',
        }
        query = re.sub(r"\bv\.(\w+)", lambda found: literals[found[1]], query)
        return re.sub(r"\$\{(\w+):regex\}", lambda found: self._regex(found[1], "\\"), query)

    def in_promql(self, query: str, width: int) -> str:
        """A query as Grafana sends it to Prometheus."""
        interval = self.interval(width)
        times = {
            "__interval": interval,
            "__rate_interval": max(interval + _SCRAPED, 4 * _SCRAPED),
            "__range": round((self.stop - self.start).total_seconds()),
        }
        # Within PromQL's quotes a backslash is two.
        return re.sub(
            r"\$([a-z_]\w*)",
            lambda found: f"{times[found[1]]}s" if found[1] in times else self._regex(found[1], "\\\\"),
            query,
        )

    def _regex(self, variable: str, escape: str) -> str:
        values = [re.sub(r"([\\^$*+?.()|\[\]{}/])", lambda c: escape + c[1], v) for v in self.values.get(variable, ())]
        if len(values) > 1:
            return f"({'|'.join(values)})"
        return values[0] if values else ".*"


def _flux_time(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time(text: str, now: datetime, option: str) -> datetime:
    """A point in time: ``now``, a time before now (``-90s``, ``-30m``, ``-2h``, ``-1d``), or ISO 8601.

    Raises
    ------
    UsageError
        The text is none of these.

    Examples
    --------
    >>> from datetime import UTC
    >>> noon = datetime(2024, 1, 1, 12, tzinfo=UTC)
    >>> time("-30m", noon, "--from").isoformat()
    '2024-01-01T11:30:00+00:00'
    >>> time("2024-01-01T10:00+00:00", noon, "--from").isoformat()
    '2024-01-01T10:00:00+00:00'

    """
    if text == "now":
        return now
    if ago := re.fullmatch(r"-(\d+)([smhd])", text):
        return now - timedelta(seconds=int(ago[1]) * _UNITS[ago[2]])
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise UsageError(f"{option} {text}: no such time; valid: now, -90s, -30m, -2h, -1d, 2024-01-01T12:00") from None
