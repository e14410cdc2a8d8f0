"""The time range that a user names, or the one in which there is something to see."""

import re
from datetime import datetime, timedelta

from unskew.dashboards.preview.answers import InfluxDB, Table
from unskew.dashboards.preview.chosen import Chosen
from unskew.errors import UsageError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MARGIN = 0.02  # of the range, on both sides
_EXTENT = """
points = from(bucket: v.defaultBucket)
  |> range(start: v.timeRangeStart, stop: v.timeRangeStop)
  |> filter(fn: (r) => r._measurement == "batch" and r._field == "tuples")
  |> filter(fn: (r) => r.run =~ /^${run:regex}$/ and r.grouping =~ /^${grouping:regex}$/)
  |> group()
  |> keep(columns: ["_time"])
union(tables: [points |> sort(columns: ["_time"]) |> limit(n: 1), points |> sort(columns: ["_time"], desc: true)
  |> limit(n: 1)])
  |> rename(columns: {_time: "time"})
"""


def time(said: str, now: datetime, option: str) -> datetime:
    """A point in time: ``now``, so long ago (``-90s``, ``-30m``, ``-2h``, ``-1d``), or in ISO 8601.

    Raises
    ------
    UsageError
        It is none of these.

    Examples
    --------
    >>> from datetime import UTC
    >>> noon = datetime(2024, 1, 1, 12, tzinfo=UTC)
    >>> time("-30m", noon, "--from").isoformat()
    '2024-01-01T11:30:00+00:00'
    >>> time("2024-01-01T10:00+00:00", noon, "--from").isoformat()
    '2024-01-01T10:00:00+00:00'

    """
    if said == "now":
        return now
    if ago := re.fullmatch(r"-(\d+)([smhd])", said):
        return now - timedelta(seconds=int(ago[1]) * _UNITS[ago[2]])
    try:
        return datetime.fromisoformat(said).astimezone()
    except ValueError:
        raise UsageError(f"{option} {said}: no such time; valid: now, -90s, -30m, -2h, -1d, 2024-01-01T12:00") from None


def filled(chosen: Chosen, influxdb: InfluxDB) -> Chosen:
    """The part of the time range in which the chosen runs have batches; all of it if there are none."""
    answer = influxdb.answer({"query": _EXTENT}, chosen)
    times = sorted(answer.columns["time"]) if isinstance(answer, Table) else []
    if not times:
        return chosen
    margin = max(timedelta(seconds=2), _MARGIN * (times[-1] - times[0]))
    start, stop = max(chosen.start, times[0] - margin), min(chosen.stop, times[-1] + margin)
    return Chosen(start, stop, chosen.values)
