"""Grafana's names of our metrics' units."""

from grafana_foundation_sdk.models import units

#: Unit in ``unskew.apps.monitoring.catalogue`` → Grafana's. What follows ``si:`` is shown as it is, after k, M, …
GRAFANA = {
    "tuples": units.Short,
    "messages": units.Short,
    "keys": units.Short,
    "workers": units.Short,
    "records": units.Short,
    "number": units.Short,
    "workers/key": units.Number,
    "ratio": units.Number,
    "percent": units.Percent,
    "tuples/s": "si: tuples/s",
    "messages/s": "si: messages/s",
    "seconds": units.Seconds,
    "ms": units.Milliseconds,
    "bytes": units.BytesIEC,
}
